// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU that ccoll::allocate gives, on a GPU that the host plays: any call takes it as it
// takes memory of cudaMalloc, and it goes without waiting for streams.
#include <atomic>
#include <cstdlib>
#include <random>
#include <string>

#include "any_device.hpp"
#include "engine/device/way.hpp"
#include "support/cuda_on_host.hpp"
#include "support/effort.hpp"

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

TEST_CASE("devices: what cannot be had of a GPU is refused, and said", "[comm][unit]") {
  const auto refused = [](std::size_t bytes, int device) {
    return message_of([&] { (void)allocate(bytes, Where::device, device); });
  };
  CHECK(refused(0, 0) == "invalid_argument: allocate: 0 bytes given, at least 1 expected");
  cuda_on_host_has(1);
  CHECK(refused(10, 1) == "invalid_argument: allocate of 10 bytes: GPU 1 given, there are 1");
  CHECK(refused(10, -1) == "invalid_argument: allocate of 10 bytes: GPU -1 given, there are 1");
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
      const AnyDevice from(input, own() % 2, own() % 3), to(expected, own() % 2, own() % 3);
      const bool in_stream = same() % 4 != 0;
      call.make(c, from.data(), to.data(), in_stream ? in(stream) : CallOptions{}, false);
      stream.wait();
      call.make(host, input.data(), expected.data(), {}, false);
      expect(to.values() == expected, std::string(to_string(call.kind)));
      expect(from.values() == input, "the input was written");
    }
    const AnyDevice mine(ramp(5000, c.rank()), own() % 2, 1), theirs(Values(5000), own() % 2, 2);
    const int next = (c.rank() + 1) % c.size(), before = (c.rank() + c.size() - 1) % c.size();
    const auto options = in(stream);
    c.send_recv(mine.data(), 5000, next, theirs.data(), 5000, before, kType, 0, options);
    stream.wait();
    expect(theirs.values() == ramp(5000, before), "send_recv");
  };
  check_all_well(run_on_devices_and_host(3, body, options_for(""), [](int) { return true; }));
}
