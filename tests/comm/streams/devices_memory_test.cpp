// SPDX-License-Identifier: Apache-2.0
// GPU memory from ccoll::allocate, and registered memory, on a GPU that the host plays: every call
// accepts it like cudaMalloc's, and it is freed without waiting for streams.
#include <fcntl.h>
#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>

#include "any_device.hpp"
#include "gpu/way.hpp"
#include "support/effort.hpp"
#include "support/gpu/cuda_on_host.hpp"
#include "support/logged.hpp"

using namespace ccoll;
using namespace ccoll::testing;

TEST_CASE("devices: memory of a GPU is CUDA's, and gone when it is freed", "[comm][unit]") {
  Memory memory = allocate(5000, Where::device);
  CHECK(memory.size_bytes() == 5000);
  CHECK(memory.as<float>().size() == 1250);
  auto* const data = memory.data();
  CHECK(device::device_of(data + 4999) == 0);
  CHECK(device::bytes_of_allocation_from(data) >= 5000);
  const Memory moved = std::move(memory);
  CHECK(moved.data() == data);
  CHECK(memory.data() == nullptr);
  memory = allocate(1, Where::device, 0);
  CHECK(memory.data() != data);
  memory.reset();
  CHECK(device::device_of(data).has_value());
  CHECK(memory.data() == nullptr);
}

TEST_CASE("devices: memory of a GPU is for network cards, and no other program's", "[comm][unit]") {
  const auto before = cuda_on_host_made_for_cards();
  const Memory memory = allocate(100, Where::device);
  CHECK(cuda_on_host_made_for_cards() > before);
  int files = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // it may be the iterator's own
    if (std::filesystem::read_symlink(each, gone).string().find("GPU 0") == std::string::npos)
      continue;
    ++files;
    INFO(each.path().string());
    CHECK((fcntl(std::stoi(each.path().filename()), F_GETFD) & FD_CLOEXEC) != 0);
  }
  CHECK(files > 0);
}

TEST_CASE("devices: what cannot be had of a GPU is refused, and said", "[comm][unit]") {
  const auto refused = [](std::size_t bytes, int device) {
    return message_of([&] { (void)allocate(bytes, Where::device, device); });
  };
  CHECK(refused(0, 0) == "invalid_argument: allocate: 0 bytes given, at least 1 expected");
  cuda_on_host_has(1);
  CHECK(refused(10, 1) == "invalid_argument: allocate of 10 bytes: GPU 1 given, there are 1");
  CHECK(refused(10, -1) == "invalid_argument: allocate of 10 bytes: GPU -1 given, there are 1");
  for (const std::size_t bytes : {std::size_t{1} << 60, SIZE_MAX - 1000, SIZE_MAX})
    CHECK(refused(bytes, 0).starts_with(fmt::format("exhausted: allocate of {} bytes: ", bytes)));
  setenv("CCOLL_GPU_FAULT", "export", 1);
  const auto said = refused(10, 0);
  unsetenv("CCOLL_GPU_FAULT");
  CHECK(said.starts_with("unsupported: allocate of 10 bytes: cuMemExportToShareableHandle: "));
  cuda_on_host_has(2);
  check_cuda(cudaSetDevice(0), "using GPU 0");
  CHECK(refused(10, 1) == "no error");
  int current = -1;
  cudaGetDevice(&current);
  CHECK(current == 0);
  cuda_on_host_has(1);
}

TEST_CASE("devices: freeing memory of a GPU waits for no stream", "[comm][unit]") {
  const OwnedStream stream;
  std::atomic<bool> may_go{false};
  Memory memory = allocate(100, Where::device);
  hold_until(may_go, stream);
  cudaEvent_t passed = nullptr;
  check_cuda(cudaEventCreateWithFlags(&passed, cudaEventDisableTiming), "an event");
  check_cuda(cudaEventRecord(passed, stream), "an event");
  memory.reset();
  CHECK(cudaEventQuery(passed) == cudaErrorNotReady);
  may_go = true;
  stream.wait();
  check_cuda(cudaEventDestroy(passed), "an event");
}

TEST_CASE("devices: memory of cudaMalloc is registered in parts that do not overlap",
          "[comm][unit]") {
  constexpr std::size_t kBytes = 1000;
  std::byte* data = nullptr;
  check_cuda(cudaMalloc(reinterpret_cast<void**>(&data), kBytes), "cudaMalloc");
  const auto refused = [&](const void* begin, std::size_t bytes) {
    return message_of([&] { (void)register_memory(const_cast<void*>(begin), bytes); });
  };
  CHECK(refused(data, 0) ==
        "invalid_argument: register_memory: 0 bytes given, at least 1 expected");
  CHECK(refused(&data, 8).find(", an address of a GPU's memory expected") != std::string::npos);
  CHECK(refused(nullptr, 8).starts_with("invalid_argument: register_memory of 8 bytes: "));
  CHECK(
      refused(data + 10, kBytes - 9) ==
      "invalid_argument: register_memory of 991 bytes: bytes 10 to 1001 of an allocation that has "
      "1000");
  {
    Memory first = register_memory(data + 100, 100);
    CHECK(first.data() == data + 100);
    CHECK(first.size_bytes() == 100);
    for (const std::size_t at : {0, 1, 100, 150, 199})
      CHECK(refused(data + at, 100)
                .starts_with("invalid_argument: register_memory of 100 bytes: "
                             "some of it is registered already: ") == (at > 0));
    const Memory second = register_memory(data + 200, kBytes - 200);
    CHECK(first.reset_within(std::chrono::milliseconds(0)));
    CHECK(first.data() == nullptr);
    CHECK(first.reset_within(std::chrono::milliseconds::max()));
    CHECK(refused(data, 200) == "no error");
    const Memory allocated = allocate(100, Where::device);
    CHECK(refused(allocated.data(), 1).find("is registered already") != std::string::npos);
  }
  // The thread has not used a GPU yet.
  std::string said;
  std::jthread([&] { said = refused(data, kBytes); }).join();
  CHECK(said == "no error");
  check_cuda(cudaFree(data), "cudaFree");
  CHECK(refused(data, 1).find(", an address of a GPU's memory expected") != std::string::npos);
}

TEST_CASE(
    "devices: memory that others cannot have is registered all the same, and that is said once",
    "[comm]") {
  const AnyDevice buffer(Values(100), MemoryKind::ordinary, 0);
  cuda_on_host_closes(buffer.data());
  const auto said = logged([&] {
    // It may consist of several mappings, while CUDA would report the range of only one.
    for (const std::size_t bytes : {100, 1 << 20, 100}) {
      Memory memory = register_memory(buffer.data(), bytes);
      CHECK(memory.data() == reinterpret_cast<std::byte*>(buffer.data()));
      CHECK(memory.reset_within(std::chrono::milliseconds(0)));
    }
  });
  CAPTURE(said);
  const auto words = "not managed, pool or mapped memory";
  CHECK(said.find(words) != std::string::npos);
  CHECK(said.find(words) == said.rfind(words));
}

TEST_CASE("devices: results do not depend on what memory each rank's buffers are",
          "[comm][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  const auto body = [seed](Communicator& c, Communicator& host) {
    std::mt19937 same(seed), own(seed + 1 + static_cast<unsigned>(c.rank()));
    const OwnedStream stream;
    for (int i = 0; i < by_effort(8, 30, 300); i++) {
      const std::size_t counts[] = {1, 100, 30'011};
      Collective call{kKinds[same() % std::size(kKinds)], counts[same() % std::size(counts)],
                      static_cast<int>(same() % 3)};
      if (same() % 8 == 0) call.op = Reduction::premultiplied_sum(3);
      const auto input = ramp(call.elems(true, c.size()), 100 * c.rank() + i);
      Values expected(call.elems(false, c.size()), -1);
      const AnyDevice from(input, kind_of(own()), own() % 3),
          to(expected, kind_of(own()), own() % 3);
      const bool in_stream = same() % 4 != 0;
      call.make(c, from.data(), to.data(), in_stream ? in(stream) : CallOptions{}, false);
      stream.wait();
      call.make(host, input.data(), expected.data(), {}, false);
      expect(to.values() == expected, std::string(to_string(call.kind)));
      expect(from.values() == input, "the input was written");
    }
    const AnyDevice mine(ramp(5000, c.rank()), kind_of(own()), 1),
        theirs(Values(5000), kind_of(own()), 2);
    const int next = (c.rank() + 1) % c.size(), before = (c.rank() + c.size() - 1) % c.size();
    const auto options = in(stream);
    c.send_recv(ConstBlock(mine.data(), 5000, kType), next, Block(theirs.data(), 5000, kType),
                before, 0, options);
    stream.wait();
    expect(theirs.values() == ramp(5000, before), "send_recv");
  };
  check_all_well(run_on_devices_and_host(3, body, options_for(""), [](int) { return true; }));
}
