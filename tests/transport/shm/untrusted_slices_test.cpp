// SPDX-License-Identifier: Apache-2.0
// Slices that a sender describes wrongly, or describes anew after they were looked at.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>
#include <numeric>

#include "net/handshake.hpp"
#include "transport/by_hand.hpp"
#include "transport/pair.hpp"
#include "transport/shm/hand_over.hpp"
#include "transport/shm/link.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace ccoll::testing::hand_over;
using namespace std::chrono_literals;

namespace {

/// A link whose sender is this test, which may write anything into the memory.
class LinkByHand {
 public:
  explicit LinkByHand(Pair& pair, const shm::ProcessMark& mark = {}) {
    REQUIRE_FALSE(sender_.connect(shm::door_name(pair.context().table, 1)));
    REQUIRE(sender_.greet());
    sender_.send(offer_of({pair.communicator, 0, 1, 0}, 0, false, mark),
                 std::array{memory_.number(), event_.number(), doorbells_.number()});
    REQUIRE(sender_.receive());
    pair.open_receiver();
    mapped_ = static_cast<std::byte*>(
        mmap(nullptr, shm::Ring::kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.number(), 0));
    REQUIRE(mapped_ != MAP_FAILED);
  }
  ~LinkByHand() { munmap(mapped_, shm::Ring::kBytes); }
  LinkByHand(const LinkByHand&) = delete;
  LinkByHand& operator=(const LinkByHand&) = delete;

  shm::Ring& ring() { return *shm::Ring::at(mapped_); }
  /// The n-th slice, in the n-th slot if it needs one.
  shm::Ring::Line& push(std::uint32_t number, std::uint32_t bytes) {
    return push(number, bytes, {number, 0, 0});
  }
  shm::Ring::Line& push(std::uint32_t number, std::uint32_t bytes, const shm::Ring::Place& place) {
    auto& line = ring().lines[number];
    line.set({number, {}, bytes, 0});
    if (!shm::Ring::Line::holds(bytes)) line.place = place;
    line.stamp.store(number + 1);
    return line;
  }

 private:
  const FileDescriptor memory_ = memory_of(shm::Ring::kBytes, F_SEAL_SHRINK | F_SEAL_GROW);
  const FileDescriptor doorbells_ = memory_of(4096, F_SEAL_SHRINK | F_SEAL_GROW);
  const FileDescriptor event_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  Speaker sender_;
  std::byte* mapped_ = nullptr;
};

}  // namespace

TEST_CASE("shm: a slice that says it is longer than its slot fails the link", "[transport]") {
  Pair pair(shm_kind());
  LinkByHand link(pair);
  link.push(0, shm::kSlotBytes + 1);
  CHECK(eventually(pair, [&] {
    return pair.receiver->front() == nullptr && pair.receiver->failure() != nullptr;
  }));
  CHECK(pair.receiver->failure()->kind == ErrorKind::corrupt);
  CHECK(pair.receiver->failure()->message ==
        "rank 0 sent a slice of 131073 bytes over shared memory; at most 131072 are allowed");
}

TEST_CASE("shm: who does not fetch does not read a sender's memory, nor more than a slot unasked",
          "[transport]") {
  const bool fetches = GENERATE(true, false);
  CAPTURE(fetches);
  Pair pair(shm_kind());
  const auto data = pattern(1, shm::kSlotBytes + 1);
  LinkByHand link(pair, fetches ? shm::process_mark() : shm::ProcessMark{});
  link.push(0, fetches ? shm::kSlotBytes + 1 : 1000,
            {shm::Ring::kUnmapped, 0, reinterpret_cast<std::uintptr_t>(data.data())});
  CHECK(eventually(pair, [&] {
    return pair.receiver->front() == nullptr && pair.receiver->failure() != nullptr;
  }));
  CHECK(link.ring().fetches.load() == (fetches ? 1 : 0));
  CHECK(pair.receiver->failure()->kind == ErrorKind::corrupt);
  CHECK(pair.receiver->failure()->message.find(
            fetches ? "rank 0 sent a slice of 131073 bytes"
                    : "rank 0 sent a slice to be read from its own memory, which this rank had not "
                      "asked for") == 0);
}

TEST_CASE("shm: what a slice has said of itself when it was looked at, it cannot take back",
          "[transport]") {
  Pair pair(shm_kind());
  LinkByHand link(pair);
  auto& receiver = *pair.receiver;
  constexpr std::array<std::uint32_t, 3> kSizes = {8, 1000, shm::kSlotBytes};
  constexpr std::uint32_t kNoSlot = 2 * shm::Ring::kLines - 1;
  for (std::uint32_t number = 0; number < 2 * kSizes.size(); number++) {
    const auto bytes = kSizes[number / 2];
    const bool peeks = number % 2 == 0;
    CAPTURE(bytes, peeks);
    auto& line = link.push(number, bytes);
    const ReceiveLink::View* view = nullptr;
    const SliceHeader* header = nullptr;
    CHECK(eventually(pair, [&] {
      if (peeks) return (header = receiver.peek()) != nullptr;
      return (view = receiver.front()) != nullptr;
    }));
    const auto* const data = view == nullptr ? nullptr : view->data;
    if (data == nullptr && !shm::Ring::Line::holds(bytes)) line.place = {kNoSlot, 0, UINT64_MAX};
    line.bytes = bytes == 8 ? UINT32_MAX : 8;
    line.sequence = 77;
    if (data != nullptr && bytes > 8) line.place = {shm::Ring::kLent, 5, UINT64_MAX};

    view = receiver.front();
    REQUIRE(view != nullptr);
    CHECK(view->header.bytes == bytes);
    CHECK(view->header.sequence == number);
    if (header != nullptr) CHECK(header->bytes == bytes);
    if (data != nullptr) CHECK(view->data == data);
    // Wherever it is, all of it can be read.
    CHECK(std::accumulate(view->data, view->data + bytes, std::byte{}, std::bit_xor<>()) ==
          std::byte{});
    CHECK(receiver.begin_read());
    CHECK(link.ring().reading.load() == 0);
    CHECK(receiver.pop());
    // Slots are returned at once, lines in batches.
    if (bytes > 8) CHECK(link.ring().popped.load() == number + 1);
  }
  CHECK(receiver.failure() == nullptr);
}
