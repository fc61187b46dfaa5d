// SPDX-License-Identifier: Apache-2.0
// Teams whose ranks use several GPUs of a process, which the host plays. Each GPU has its own
// kernels, streams and memory, and reaches others' memory only after being given access.
#include <fmt/format.h>

#include <chrono>
#include <deque>
#include <numeric>
#include <random>

#include "devices.hpp"
#include "support/effort.hpp"
#include "support/real_time.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;

namespace {

/// Makes some calls of every kind, with known results.
void call_all(Communicator& c) {
  const OwnedStream stream;
  const int size = c.size(), rank = c.rank();
  const auto n = static_cast<std::size_t>(size);
  for (const std::size_t count : {1U, 300U, 20'000U}) {
    Values sums(count), gathered(count * n), scattered(count);
    for (std::size_t i = 0; i < count; i++) {
      const auto value = static_cast<std::int32_t>(i);
      sums[i] = size * value + size * (size - 1) / 2;
      for (std::size_t from = 0; from < n; from++)
        gathered[from * count + i] = value + static_cast<std::int32_t>(from);
      scattered[i] =
          size * (value + rank * static_cast<std::int32_t>(count)) + size * (size - 1) / 2;
    }
    const Device own(ramp(count, rank)), all(Values(count * n, 0)), in_place(ramp(count, rank));
    const Device long_own(ramp(count * n, rank)), part(Values(count, 0)),
        exchanged(Values(count * n, 0));
    c.all_reduce(Block(in_place.data(), count, kType), ReduceOp::sum, in(stream));
    c.all_gather(ConstBlock(own.data(), count, kType), Block(all.data(), c.size() * count, kType),
                 in(stream));
    c.reduce_scatter(ConstBlock(long_own.data(), c.size() * count, kType),
                     Block(part.data(), count, kType), ReduceOp::sum, in(stream));
    c.all_to_all(ConstBlock(all.data(), c.size() * count, kType),
                 Block(exchanged.data(), c.size() * count, kType), in(stream));
    c.barrier(in(stream));
    stream.wait();
    expect(in_place.values() == sums, "all_reduce");
    expect(all.values() == gathered, "all_gather");
    expect(part.values() == scattered, "reduce_scatter");
    // All ranks have the same input, and get each rank's copy of their own block.
    Values copies(count * n);
    for (std::size_t i = 0; i < count * n; i++)
      copies[i] = rank + static_cast<std::int32_t>(i % count);
    expect(exchanged.values() == copies, "all_to_all");
  }
}

}  // namespace

TEST_CASE("gpus: ranks on several GPUs of a process are a team, in any mix", "[comm][property]") {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  const int trials = by_effort(4, 10, 100);
  for (int trial = 0; trial < trials; trial++) {
    const unsigned gpus = 2 + random() % 3;
    std::vector<int> of_rank(2 + random() % 7);
    std::string placed;
    for (auto& gpu : of_rank) {
      gpu = static_cast<int>(random() % gpus);
      placed += ' ';
      placed += std::to_string(gpu);
    }
    const auto copies = trial % 2 == 0 ? DeviceCopies::by_size : DeviceCopies::always;
    CAPTURE(seed, trial, placed, to_string(copies));
    const auto body = [](Communicator& c) {
      expect(way_of(c) == "team", way_of(c));
      call_all(c);
      expect(c.counters().device_memory_bytes == 0, "data went through the host");
    };
    check_all_well(run_on_gpus(of_rank, body, DeviceWay::automatic, copies));
  }
}

TEST_CASE("gpus: a call begins when all ranks' streams have come to it, on all GPUs", "[comm]") {
  std::atomic<bool> may_go{false};
  check_all_well(run_on_gpus({0, 1, 0, 2}, [&](Communicator& c) {
    const OwnedStream streams[2];
    const Device sums(Values(3000, 1)), late(Values(3000, 1));
    for (int call = 0; call < 6; call++) {
      // Only the calls order these streams.
      const auto& stream = streams[call % 2];
      if (call == 0 && c.rank() == 3) hold_until(may_go, stream);
      c.all_reduce(Block(sums.data(), 3000, kType), ReduceOp::sum, in(stream));
    }
    if (c.rank() == 3) {
      // No kernel may block another meanwhile.
      leave_time(50ms);
      const int running = cuda_on_host_runs_teams();
      may_go = true;
      expect(running == 0, "kernels run that wait for a stream");
    }
    for (const auto& stream : streams) stream.wait();
    expect(sums.values() == Values(3000, 4096), "sums of sums");
  }));
}

TEST_CASE("gpus: one thread has several, plain and in one graph", "[comm]") {
  constexpr int kRanks = 5;
  cuda_on_host_has(kGpus);
  std::vector<CommunicatorOptions> all;
  const auto store = make_inproc_store();
  std::vector<std::optional<Communicator>> ranks(kRanks);
  check_all_well(run_threads(kRanks, [&](int rank) {
    auto options = options_for("");
    options.device.ordinal = rank % 3;
    ranks[static_cast<std::size_t>(rank)].emplace(
        Communicator::create(store, rank, kRanks, options));
  }));
  std::vector<std::unique_ptr<OwnedStream>> streams;
  std::vector<Device> sums;
  for (int rank = 0; rank < kRanks; rank++) {
    check_cuda(cudaSetDevice(rank % 3), "a device");
    streams.push_back(std::make_unique<OwnedStream>());
    sums.emplace_back(Values(700, 1));
  }
  std::int32_t expected = 1;
  const auto call = [&] {
    CallGroup group;
    for (std::size_t i = 0; i < kRanks; i++)
      ranks[i]->all_reduce(Block(sums[i].data(), 700, kType), ReduceOp::sum, in(*streams[i]));
    group.end();
  };
  const auto check = [&] {
    for (std::size_t i = 0; i < kRanks; i++) {
      streams[i]->wait();
      CHECK(sums[i].values() == Values(700, expected));
    }
  };
  std::vector<std::unique_ptr<Graph>> graphs;
  for (int i = 0; i < 3; i++) {
    cudaEvent_t event = nullptr;
    graphs.push_back(std::make_unique<Graph>(*streams[0], [&] {
      const auto order = [&](cudaStream_t before, cudaStream_t behind, int device) {
        check_cuda(cudaSetDevice(device), "a device");
        check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
        check_cuda(cudaEventRecord(event, before), "recording an event");
        check_cuda(cudaStreamWaitEvent(behind, event, 0), "waiting for an event");
        check_cuda(cudaEventDestroy(event), "an event");
      };
      for (int rank = 1; rank < kRanks; rank++)
        order(*streams[0], *streams[static_cast<std::size_t>(rank)], 0);
      call();
      call();
      for (int rank = 1; rank < kRanks; rank++)
        order(*streams[static_cast<std::size_t>(rank)], *streams[0], rank % 3);
    }));
    call();
    expected *= kRanks;
    check();
  }
  for (int i = 0; i < 2; i++) {
    // Sums may wrap around; they are right as long as all ranks agree.
    graphs[static_cast<std::size_t>(i)]->launch(*streams[0]);
    streams[0]->wait();
    expected *= kRanks * kRanks;
    check();
  }
  check_cuda(cudaSetDevice(0), "a device");
}

TEST_CASE("gpus: buffers that other GPUs do not reach are lent to none, and not copied", "[comm]") {
  const auto copies = GENERATE(DeviceCopies::by_size, DeviceCopies::always);
  CAPTURE(to_string(copies));
  const auto body = [](Communicator& c) {
    expect(way_of(c) == "team", way_of(c));
    const OwnedStream stream;
    // Memory like a pool's, which must not go back to the DevicePool that others use.
    void* memory = nullptr;
    auto mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    check_cuda(cudaMalloc(&memory, 12'000), "cudaMalloc");
    auto* const closed = static_cast<std::int32_t*>(memory);
    if (c.rank() == 1) cuda_on_host_closes(memory);
    const Device own(ramp(1000, c.rank())), exchanged(Values(3000, 0));
    for (int i = 0; i < 3; i++) {
      c.all_gather(ConstBlock(own.data(), 1000, kType), Block(closed, c.size() * 1000, kType),
                   in(stream));
      c.all_to_all(ConstBlock(closed, c.size() * 1000, kType),
                   Block(exchanged.data(), c.size() * 1000, kType), in(stream));
      stream.wait();
      for (std::size_t from = 0; from < 3; from++)
        expect(exchanged.values()[from * 1000 + 7] == c.rank() + 7, "a block");
    }
    c.barrier();
  };
  check_all_well(run_on_gpus({0, 1, 2}, body, DeviceWay::automatic, copies));
}

TEST_CASE("gpus: where copies between them do not work kernels make the calls", "[comm]") {
  // Each kind needs GPUs that no test has probed before.
  const auto [how, first] =
      GENERATE(table<cuda_on_host_peers, int>({{kCopiesWrong, 16}, {kCopiesHang, 18}}));
  CAPTURE(how);
  cuda_on_host_has_peers(how);
  const int kernels = cuda_on_host_team_kernels();
  const auto body = [](Communicator& c) {
    expect(way_of(c) == "team", way_of(c));
    call_all(c);
  };
  check_all_well(
      run_on_gpus({first, first + 1, first}, body, DeviceWay::automatic, DeviceCopies::always));
  // Each GPU runs 5 calls in each of 3 sizes.
  CHECK(cuda_on_host_team_kernels() - kernels == 2 * 15);
  cuda_on_host_has_peers(kPeersWell);
}

TEST_CASE(
    "gpus: copies begin when all ranks' streams have come to them, and end before any goes on",
    "[comm]") {
  std::atomic<bool> may_go{false};
  // Two ranks share a GPU, so there are copies within it, too.
  const auto body = [&](Communicator& c) {
    const auto n = static_cast<std::size_t>(c.size());
    // Nothing but the calls orders these streams.
    struct {
      OwnedStream stream;
      Device own{Values(3000, 0)}, all{Values(12'000, 0)}, exchanged{Values(12'000, 0)};
    } beside[2];
    for (int call = 0; call < 6; call++) {
      const auto& [stream, own, all, exchanged] = beside[call % 2];
      // Meanwhile other GPUs have data for it.
      if (call == 0 && c.rank() == 1) hold_until(may_go, stream);
      // The input is written only in the stream, and the old output disappears only there.
      check_cuda(cudaMemsetAsync(own.data(), 1 + call + c.rank(), 12'000, stream), "cudaMemset");
      check_cuda(cudaMemsetAsync(all.data(), 0x22, 12'000 * n, stream), "cudaMemset");
      check_cuda(cudaMemsetAsync(exchanged.data(), 0x22, 12'000 * n, stream), "cudaMemset");
      c.all_gather(ConstBlock(own.data(), 3000, kType), Block(all.data(), c.size() * 3000, kType),
                   in(stream));
      // By then nobody reads the input, and after the second call nobody uses the gathered data.
      check_cuda(cudaMemsetAsync(own.data(), 0x55, 12'000, stream), "cudaMemset");
      c.all_to_all(ConstBlock(all.data(), c.size() * 3000, kType),
                   Block(exchanged.data(), c.size() * 3000, kType), in(stream));
      check_cuda(cudaMemsetAsync(all.data(), 0x55, 12'000 * n, stream), "cudaMemset");
      if (call == 0 && c.rank() == 1) {
        // The other ranks get as far as they can.
        leave_time(50ms);
        may_go = true;
      }
      if (call % 3 == 1) continue;
      stream.wait();
      expect(exchanged.values() == Values(3000 * n, (1 + call + c.rank()) * 0x01010101),
             "what came from all");
      expect(all.values() == Values(3000 * n, 0x55555555), "what was written behind the call");
    }
  };
  check_all_well(run_on_gpus({0, 1, 2, 1}, body, DeviceWay::automatic, DeviceCopies::always));
}

TEST_CASE("gpus: a stream of another GPU is refused, and nothing is broken", "[comm]") {
  const auto way = GENERATE(DeviceWay::automatic, DeviceWay::steps, DeviceWay::host);
  CAPTURE(to_string(way));
  const auto body = [](Communicator& c) {
    const int other = 1 - c.rank();
    check_cuda(cudaSetDevice(other), "the other GPU");
    const OwnedStream wrong;
    check_cuda(cudaSetDevice(c.rank()), "the own GPU");
    const OwnedStream right;
    const Device sums(ramp(300, c.rank())), came(Values(300, 0));
    const auto expected = fmt::format(
        "invalid_argument: the stream is of GPU {}: expected a stream of GPU {}", other, c.rank());
    const auto refused = [&](const std::string& said) { expect(said.starts_with(expected), said); };
    refused(message_of(
        [&] { c.all_reduce(Block(sums.data(), 300, kType), ReduceOp::sum, in(wrong)); }));
    refused(message_of([&] { c.barrier_async(in(wrong)); }));
    refused(message_of([&] { c.send(ConstBlock(sums.data(), 300, kType), other, 0, in(wrong)); }));
    c.all_reduce(Block(sums.data(), 300, kType), ReduceOp::sum, in(right));
    c.send_recv(ConstBlock(sums.data(), 300, kType), other, Block(came.data(), 300, kType), other,
                0, in(right));
    right.wait();
    expect(came.values().back() == 2 * 299 + 1, "the sums of the other rank");
    expect(c.error().empty(), c.error());
  };
  check_all_well(run_on_gpus({0, 1}, body, way));
}

TEST_CASE("gpus: where GPUs do not reach each other the next way serves, on all ranks", "[comm]") {
  // Each kind needs GPUs that no test has probed. What streams share is probed, too.
  const auto [how, first, serves] =
      GENERATE(table<cuda_on_host_peers, int, std::string>({{kPeersTooMany, 4, "steps"},
                                                            {kPeersApart, 6, "host"},
                                                            {kPeersWrong, 8, "host"},
                                                            {kPeersHang, 10, "host"}}));
  CAPTURE(how);
  cuda_on_host_has_peers(how);
  const auto begun = std::chrono::steady_clock::now();
  check_all_well(run_on_gpus({first, first + 1, first}, [way = serves](Communicator& c) {
    expect(way_of(c) == way, way_of(c));
    call_all(c);
  }));
  if (how == kPeersHang) CHECK(std::chrono::steady_clock::now() - begun > 5s);
  // Known results are not probed again, so nothing hangs again.
  const auto again = std::chrono::steady_clock::now();
  check_all_well(run_on_gpus(
      {first, first + 1},
      [](Communicator& c) {
        expect(way_of(c) == "host", way_of(c));
        call_all(c);
      },
      DeviceWay::team));
  CHECK(std::chrono::steady_clock::now() - again < 5s);
  cuda_on_host_has_peers(kPeersWell);
}

TEST_CASE("gpus: a launch that one GPU refuses ends the others' parts, and serves nobody after",
          "[comm]") {
  const auto copies = GENERATE(DeviceCopies::never, DeviceCopies::always);
  CAPTURE(to_string(copies));
  cuda_on_host_has(kGpus);
  auto options = options_for("");
  options.device.ordinal = 15;
  // While it lives, ended teams are kept.
  const auto keeper = Communicator::create_all(1, options);
  std::atomic<int> called{0};
  const std::vector<int> of_rank = {12, 13, 12};
  const auto body = [&](Communicator& c) {
    const OwnedStream stream;
    const Device own(Values(1000, c.rank())), all(Values(3000, 7));
    c.all_gather(ConstBlock(own.data(), 1000, kType), Block(all.data(), c.size() * 1000, kType),
                 in(stream));
    stream.wait();
    expect(all.values()[2999] == 2, "what was gathered");
    cuda_on_host_refuses(13, true);
    ++called;
    expect(eventually([&] { return called == 3; }), "not all have called");
    c.all_gather(ConstBlock(own.data(), 1000, kType), Block(all.data(), c.size() * 1000, kType),
                 in(stream));
  };
  const auto errors = run_on_gpus(of_rank, body, DeviceWay::automatic, copies);
  for (const auto& error : errors) {
    CAPTURE(error);
    CHECK(error.find("on GPU 13") != error.npos);
    CHECK(error.find("may still be written") == error.npos);
  }
  cuda_on_host_refuses(13, false);
  const auto again = [](Communicator& c) {
    expect(way_of(c) == "team", way_of(c));
    call_all(c);
  };
  check_all_well(run_on_gpus(of_rank, again, DeviceWay::automatic, copies));
}

TEST_CASE("gpus: one thread makes ranks with a GPU of each", "[comm]") {
  const std::vector<int> devices = GENERATE(std::vector{1}, std::vector{0, 0}, std::vector{2, 0},
                                            std::vector{3, 1, 0}, std::vector{1, 2, 2, 1});
  const bool by_id = GENERATE(false, true);
  CAPTURE(devices, by_id);
  cuda_on_host_has(kGpus);
  const std::size_t size = devices.size();
  std::vector<int> numbers(size);
  std::iota(numbers.begin(), numbers.end(), 0);
  auto ranks = by_id ? Communicator::create_all(UniqueId::create(), numbers, static_cast<int>(size),
                                                options_for(""), devices)
                     : Communicator::create_all(static_cast<int>(size), options_for(""), devices);
  std::deque<OwnedStream> streams;
  std::vector<Device> sums;
  for (const int device : devices) {
    check_cuda(cudaSetDevice(device), "a device");
    streams.emplace_back();
    sums.emplace_back(ramp(300, device));
  }
  {
    CallGroup group;
    for (std::size_t i = 0; i < size; i++)
      ranks[i].all_reduce(Block(sums[i].data(), 300, kType), ReduceOp::sum, in(streams[i]));
    group.end();
  }
  const int first = std::accumulate(devices.begin(), devices.end(), 0);
  for (std::size_t i = 0; i < size; i++) {
    CHECK(way_of(ranks[i]) == "team");
    streams[i].wait();
    CHECK(sums[i].values().front() == first);
    CHECK(sums[i].values().back() == first + static_cast<int>(size) * 299);
  }
  // The GPU is the rank's own, so memory of another one is refused.
  check_cuda(cudaSetDevice(9), "a device");
  const Device elsewhere(ramp(1, 0));
  for (std::size_t i = 0; i < size; i++)
    CHECK_THAT(message_of([&] {
                 ranks[i].all_reduce(Block(elsewhere.data(), 1, kType), ReduceOp::sum,
                                     in(streams[i]));
               }),
               Catch::Contains("GPU 9") && Catch::Contains(fmt::format("GPU {}", devices[i])));
}
