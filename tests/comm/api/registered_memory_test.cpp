// SPDX-License-Identifier: Apache-2.0
// Tests ccoll::allocate and register_memory, and calls that use such buffers.
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "comm/on_transports.hpp"

using namespace ccoll;
using testing::expect;
using testing::message_of;

namespace {

constexpr std::size_t kCount = 50'000;

/// Integers in memory of either kind.
class KindOfMemory {
 public:
  explicit KindOfMemory(bool registered) {
    if (registered)
      registered_ = allocate(kCount * sizeof(std::int64_t));
    else
      ordinary_.resize(kCount);
  }
  std::span<std::int64_t> get(std::size_t count) {
    auto all = registered_.data() != nullptr ? registered_.as<std::int64_t>() : ordinary_;
    return all.first(count);
  }

 private:
  Memory registered_;
  std::vector<std::int64_t> ordinary_;
};

std::int64_t number(int rank, std::size_t index) {
  return (rank + 1) * 1'000'000 + static_cast<std::int64_t>(index);
}

}  // namespace

TEST_CASE("memory: belongs to whoever holds it, and is zero at first", "[comm][unit]") {
  Memory memory;
  CHECK(memory.data() == nullptr);
  CHECK(memory.size_bytes() == 0);
  CHECK(memory.as<float>().empty());
  memory = allocate(4097);
  CHECK(memory.size_bytes() == 4097);
  CHECK(memory.as<float>().size() == 1024);
  CHECK(
      std::ranges::all_of(memory.as<std::byte>(), [](auto byte) { return byte == std::byte{0}; }));
  auto* const data = memory.data();
  const Memory moved = std::move(memory);
  CHECK(moved.data() == data);
  CHECK(message_of([&] { memory.reset(); }) == "no error");
}

TEST_CASE("memory: what cannot be is refused, and said", "[comm][unit]") {
  CHECK(message_of([] { (void)allocate(0); }) ==
        "invalid_argument: allocate: 0 bytes given, at least 1 expected");
  CHECK(message_of([] { (void)allocate(1, static_cast<Where>(7)); }) ==
        "invalid_argument: allocate: Where is 7: expected host or device");
  CHECK(message_of([] { (void)allocate(1, Where::host, 0); }) ==
        "invalid_argument: allocate: GPU 0 was given, but host memory was requested");
  // The machine may have a GPU.
  const auto of_gpu = message_of([] { (void)allocate(1, Where::device); });
  CAPTURE(of_gpu);
  CHECK((of_gpu == "no error" || of_gpu.starts_with("unsupported: allocate of 1 bytes: ")));
  CHECK(message_of([] {
          (void)allocate(std::size_t{1} << 62);
        }).starts_with("exhausted: allocate of 4611686018427387904 bytes: shared memory: "));
  CHECK(message_of([] {
          (void)allocate(SIZE_MAX);
        }).starts_with("exhausted: allocate of 18446744073709551615 bytes: shared memory: "));

  const int file = memfd_create("mine", MFD_CLOEXEC);
  REQUIRE(ftruncate(file, 8192) == 0);
  void* const mapped = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  REQUIRE(mapped != MAP_FAILED);
  const auto refused = [&](std::size_t bytes, int number, std::uint64_t offset) {
    return message_of([&] { (void)register_memory(mapped, bytes, number, offset); });
  };
  CHECK(refused(0, file, 0) ==
        "invalid_argument: register_memory: 0 bytes given, at least 1 expected");
  CHECK(refused(1, -1, 0) ==
        "invalid_argument: register_memory: file descriptor -1: Bad file descriptor");
  CHECK(message_of([&] { (void)register_memory(nullptr, 8192, file); }) ==
        "invalid_argument: register_memory: null given for 8192 bytes of a mapping");
  CHECK(
      refused(8193, file, 0) ==
      "invalid_argument: register_memory of 8193 bytes: shared memory: bytes 0 to 8193 are not in "
      "a file of 8192 bytes");
  {
    const Memory first = register_memory(mapped, 8192, file);
    CHECK(first.data() == mapped);
    CHECK(refused(1, file, 0).starts_with("invalid_argument: register_memory of 1 bytes: some of"));
  }
  CHECK(message_of([&] { (void)register_memory(mapped, 1, file); }) == "no error");
  munmap(mapped, 8192);
  close(file);
}

TEST_CASE("memory: results do not depend on what kind of memory each rank's buffers are",
          "[comm][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  constexpr int kSize = 3;
  testing::on_all_transports(kSize, [seed](Communicator& world) {
    std::mt19937 shared(seed), own(seed + 1 + static_cast<unsigned>(world.rank()));
    const int rank = world.rank();
    for (int round = 0; round < testing::by_effort(10, 40, 400); round++) {
      const std::size_t block = 1 + shared() % (kCount / kSize);
      const auto all = block * kSize;
      const auto root = static_cast<int>(shared() % kSize);
      KindOfMemory input(own() % 2), output(own() % 2);
      const auto in = input.get(all);
      for (std::size_t i = 0; i < all; i++) in[i] = number(rank, i);

      world.all_reduce(in, output.get(all));
      for (std::size_t i = 0; i < all; i++)
        expect(output.get(all)[i] == number(0, i) + number(1, i) + number(2, i), "all_reduce");
      world.all_gather(in.first(block), output.get(all));
      for (std::size_t i = 0; i < all; i++)
        expect(output.get(all)[i] == number(int(i / block), i % block), "all_gather");
      world.all_to_all(in, output.get(all));
      for (std::size_t i = 0; i < all; i++)
        expect(output.get(all)[i] == number(int(i / block), i % block + block * std::size_t(rank)),
               "all_to_all");
      const int next = (rank + 1) % kSize, before = (rank + kSize - 1) % kSize;
      world.send_recv(in, next, output.get(all), before);
      for (std::size_t i = 0; i < all; i++)
        expect(output.get(all)[i] == number(before, i), "send_recv");
      world.broadcast(in, root);
      for (std::size_t i = 0; i < all; i++) expect(in[i] == number(root, i), "broadcast");
    }
  });
}

TEST_CASE(
    "memory: what the caller shares himself, from anywhere in its file, is lent like any other",
    "[comm]") {
  testing::on_all_transports(2, [](Communicator& world) {
    constexpr std::size_t kBytes = 1 << 20, kBefore = 5 * 4096 + 8;
    const int file = memfd_create("mine", MFD_CLOEXEC);
    expect(ftruncate(file, kBefore + kBytes) == 0, "room");
    auto* const mapped = static_cast<std::byte*>(
        mmap(nullptr, kBefore + kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    {
      const Memory memory = register_memory(mapped + kBefore, kBytes, file, kBefore);
      close(file);  // the mapping keeps its own reference
      const auto mine = memory.as<std::uint32_t>();
      std::vector<std::uint32_t> got(mine.size());
      for (unsigned round = 0; round < 20; round++) {
        std::iota(mine.begin(), mine.end(), round + 7u * static_cast<unsigned>(world.rank()));
        world.send_recv(mine, 1 - world.rank(), got, 1 - world.rank());
        expect(got[0] == round + 7u * static_cast<unsigned>(1 - world.rank()) &&
                   got.back() == got[0] + got.size() - 1,
               "the other's numbers");
      }
    }
    munmap(mapped, kBefore + kBytes);
  });
}
