// SPDX-License-Identifier: Apache-2.0
// Calls captured in graphs, on a device that the host plays.
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "devices.hpp"
#include "gpu/way.hpp"
#include "graph_of_ranks.hpp"
#include "support/gpu/cuda_on_host.hpp"
#include "support/real_time.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;

TEST_CASE("devices: a communicator that ends while a stream is captured leaves nothing mapped",
          "[comm]") {
  check_all_well(run_on_devices(2, [](Communicator& c) {
    const OwnedStream stream;
    c.barrier();
    const auto before = cuda_on_host_registered();
    c.barrier();
    std::optional<Communicator> other = c.duplicate();
    Memory memory = allocate(1000, Where::device, gpu_of(c.rank()));
    const std::byte* const place = memory.data();
    other->barrier();
    c.barrier();
    const Graph graph(stream, [&] {
      other.reset();
      memory.reset();
      // Both ranks are capturing when the last of them releases what they share.
      leave_time(100ms);
    });
    c.barrier();
    expect(cuda_on_host_registered() == before, "memory of the host is still registered");
    expect(!device::device_of(place), "memory of the device is still mapped");
  }));
}

TEST_CASE("devices: a graph runs as often as one likes, among other calls", "[comm]") {
  check_all_well(run_on_devices(2, [](Communicator& c) {
    const OwnedStream stream;
    const Device buffer(Values(500, 1)), got(Values(10));
    const int other = 1 - c.rank();
    // It captures the communicator's very first call in a stream.
    c.barrier();
    const Graph graph(stream, [&] {
      const auto work =
          c.all_reduce_async(Block(buffer.data(), 500, kType), ReduceOp::sum, in(stream));
      expect(Work(work).test(), "a captured call's Work is not over");
      c.send_recv(ConstBlock(buffer.data(), 10, kType), other, Block(got.data(), 10, kType), other,
                  0, in(stream));
    });
    std::int32_t value = 1;
    for (int i = 0; i < 12; i++) {
      graph.launch(stream);
      value *= 2;
      if (i % 3 == 0) {
        c.all_reduce(Block(buffer.data(), 500, kType), ReduceOp::sum, in(stream));
        value *= 2;
      }
      if (i % 4 == 0) stream.wait();
    }
    stream.wait();
    expect(buffer.values() == Values(500, value), "a graph's all_reduce");
    expect(got.values() == Values(10, value), "a graph's message");
    c.close();
    // Its remains do not block the stream.
    graph.launch(stream);
    stream.wait();
  }));
}

TEST_CASE("devices: a factor is read where it lies when the stream comes to the call", "[comm]") {
  const bool is_of_device = GENERATE(true, false);
  check_all_well(run_on_devices(2, [&](Communicator& c) {
    const OwnedStream stream;
    const Device mine(ramp(500, c.rank())), sums(Values(500)), factor(Values(1, 0));
    std::int32_t on_host = 0;
    const void* const place = is_of_device ? factor.data() : &on_host;
    const auto write = [&](std::int32_t value) {
      on_host = value;
      check_cuda(cudaMemcpy(factor.data(), &value, sizeof value, cudaMemcpyHostToDevice), "a copy");
    };
    const auto scaled = Reduction::premultiplied_sum_at(place, kType);
    const auto call = [&] {
      c.all_reduce(ConstBlock(mine.data(), 500, kType), Block(sums.data(), 500, kType), scaled,
                   in(stream));
    };
    const auto expected = [&](std::int32_t first, std::int32_t second) {
      Values values(500);
      for (std::int32_t i = 0; i < 500; i++)
        values[static_cast<std::size_t>(i)] = first * i + second * (i + 1);
      return values;
    };
    // Each rank has its own factor.
    std::atomic<bool> may_go{false};
    hold_until(may_go, stream);
    call();
    write(2 + c.rank());
    may_go = true;
    stream.wait();
    expect(sums.values() == expected(2, 3), "the factor was read before the stream had come");
    c.barrier();
    const Graph graph(stream, call);
    for (const std::int32_t value : {5, -7}) {
      write(value + c.rank());
      graph.launch(stream);
      stream.wait();
      expect(sums.values() == expected(value, value + 1), "a graph's factor");
    }
    // It works without a stream, too.
    write(4);
    c.all_reduce(Block(mine.data(), 500, kType), scaled);
    stream.wait();
    expect(mine.values() == expected(4, 4), "a call without a stream");
  }));
}

TEST_CASE("devices: a graph goes on after its communicator has failed, or is gone", "[comm]") {
  const auto how = GENERATE(as<std::string>(), "mismatch", "abort", "close while it runs");
  CAPTURE(how);
  const auto errors = run_on_devices(2, [&](Communicator& c) {
    const OwnedStream stream;
    const Device buffer(Values(100, 1));
    c.barrier();
    const Graph graph(
        stream, [&] { c.all_reduce(Block(buffer.data(), 100, kType), ReduceOp::sum, in(stream)); });
    graph.launch(stream);
    stream.wait();
    if (how == "mismatch") {
      message_of([&] {
        c.rank() == 0 ? c.all_reduce(Block(buffer.data(), 100, kType))
                      : c.broadcast(Block(buffer.data(), 99, kType), 0);
        c.barrier();
      });
      expect(c.error().find("broadcast") != std::string::npos, c.error());
    } else if (how == "abort") {
      c.abort("enough");
    } else {
      for (int i = 0; i < 20; i++) graph.launch(stream);
      c.close();
    }
    for (int i = 0; i < 3; i++) graph.launch(stream);
    stream.wait();
  });
  check_all_well(errors);
}

TEST_CASE("devices: one graph of several ranks' calls, which one thread captures", "[comm]") {
  constexpr int kRanks = 3;
  constexpr std::size_t kCount = 500;
  auto ranks = Communicator::create_all(kRanks, on_device());
  const OwnedStream streams[kRanks];
  std::vector<Device> sums;
  for (int rank = 0; rank < kRanks; rank++) sums.emplace_back(Values(kCount, 1));
  Values here(kCount, 5);
  const auto call_all = [&] {
    CallGroup group;
    for (std::size_t i = 0; i < kRanks; i++)
      ranks[i].all_reduce(Block(sums[i].data(), kCount, kType), ReduceOp::sum, in(streams[i]));
    // One group holds two calls of each rank, one of them with host memory.
    for (std::size_t i = 0; i < kRanks; i++)
      ranks[i].broadcast(Block(i == 1 ? here.data() : sums[i].data(), kCount, kType), 2,
                         in(streams[i]));
    group.end();
  };
  const Branches branches(streams);
  // It captures the very first call.
  const Graph graph(streams[0], [&] {
    branches.fork();
    call_all();
    branches.join();
  });
  for (int i = 0; i < 8; i++) {
    graph.launch(streams[0]);
    streams[0].wait();
    if (i % 3 == 0) {
      call_all();
      for (const auto& stream : streams) stream.wait();
    }
  }
  // Rank 1 receives the broadcast in host memory, and its sums grow more slowly.
  CHECK(sums[0].values() == sums[2].values());
  CHECK(here == sums[2].values());
  for (auto& rank : ranks) CHECK(rank.error().empty());
  for (auto& rank : ranks) rank.close();
  // Their remains do not block the stream.
  graph.launch(streams[0]);
  streams[0].wait();
}

TEST_CASE("devices: copies and kernels of a team follow one another, also in graphs", "[comm]") {
  if (way() != "team") return;
  constexpr std::size_t kRanks = 4, kCount = 1000;
  const auto copies = GENERATE(DeviceCopies::always, DeviceCopies::never);
  const GpusOfRanks gpus_of_ranks;
  const OwnedStream streams[kRanks] = {GpusOfRanks::stream(0), GpusOfRanks::stream(1),
                                       GpusOfRanks::stream(2), GpusOfRanks::stream(3)};
  auto options = on_device();
  options.device.copies = copies;
  auto ranks = Communicator::create_all(kRanks, options, GpusOfRanks::of(kRanks));
  std::vector<Device> sums, gathered, exchanged;
  std::vector<Values> expected;
  for (std::size_t i = 0; i < kRanks; i++) {
    const int rank = static_cast<int>(i);
    expected.push_back(ramp(kRanks * kCount, rank));
    sums.push_back(GpusOfRanks::memory(rank, expected[i]));
    gathered.push_back(GpusOfRanks::memory(rank, expected[i]));
    exchanged.push_back(GpusOfRanks::memory(rank, Values(kRanks * kCount)));
  }
  Values in_place(expected[1].begin() + kCount, expected[1].begin() + 2 * kCount);
  // For one rank the all_gather is in place.
  const auto call_all = [&] {
    CallGroup group;
    for (std::size_t i = 0; i < kRanks; i++)
      ranks[i].all_gather(
          ConstBlock(i == 1 ? gathered[i].data() + kCount : sums[i].data(), kCount, kType),
          Block(gathered[i].data(), ranks[i].size() * kCount, kType), in(streams[i]));
    for (std::size_t i = 0; i < kRanks; i++)
      ranks[i].all_to_all(ConstBlock(gathered[i].data(), ranks[i].size() * kCount, kType),
                          Block(exchanged[i].data(), ranks[i].size() * kCount, kType),
                          in(streams[i]));
    for (std::size_t i = 0; i < kRanks; i++)
      ranks[i].all_reduce(ConstBlock(exchanged[i].data(), kRanks * kCount, kType),
                          Block(sums[i].data(), kRanks * kCount, kType), ReduceOp::sum,
                          in(streams[i]));
    group.end();
  };
  const Branches branches(streams);
  const auto kernels = cuda_on_host_team_kernels();
  const Graph graph(streams[0], [&] {
    branches.fork();
    call_all();
    branches.join();
  });
  CHECK(cuda_on_host_team_kernels() - kernels == (copies == DeviceCopies::always ? 1 : 3) * gpus());
  for (int round = 0; round < 3; round++) {
    for (const auto& stream : streams) stream.wait();
    for (int i = 0; i < 2; i++) graph.launch(streams[0]);
    // Work that is put into the others' streams comes behind it.
    branches.fork();
    call_all();
    for (int i = 0; i < 3; i++) {
      // Block i of rank r's exchanged data is block r of rank i's gathered data.
      Values sum(kCount);
      for (std::size_t rank = 0; rank < kRanks; rank++) {
        const auto& block = rank == 1 ? in_place : expected[rank];
        for (std::size_t k = 0; k < kCount; k++) sum[k] += block[k];
      }
      for (auto& each : expected)
        for (std::size_t k = 0; k < each.size(); k++) each[k] = sum[k % kCount];
    }
  }
  for (const auto& stream : streams) stream.wait();
  for (std::size_t i = 0; i < kRanks; i++) CHECK(sums[i].values() == expected[i]);
  for (auto& rank : ranks) CHECK(rank.error().empty());
}

TEST_CASE("devices: a call that waits for other ranks comes behind the graph before it", "[comm]") {
  std::atomic<bool> may_go{false};
  check_all_well(run_on_devices(2, [&](Communicator& c) {
    const OwnedStream stream;
    const Device sums(Values(100, 1)), all(Values(20));
    const Graph graph(
        stream, [&] { c.all_reduce(Block(sums.data(), 100, kType), ReduceOp::sum, in(stream)); });
    if (c.rank() == 0) hold_until(may_go, stream);
    graph.launch(stream);
    if (c.rank() == 1) {
      be_late(200ms);
      may_go = true;
    }
    c.all_gather(ConstBlock(sums.data(), 10, kType), Block(all.data(), c.size() * 10, kType),
                 in(stream));
    stream.wait();
    expect(all.values() == Values(20, 2), "the graph came first");
  }));
}

TEST_CASE("devices: behind a graph a call waits no longer than its limit for others", "[comm]") {
  if (way() != "team") return;
  const bool differ = GENERATE(false, true);
  std::atomic<bool> may_go{false};
  auto options = options_for("");
  options.timeout = 300ms;
  const auto errors = run_on_devices(
      2,
      [&](Communicator& c) {
        const OwnedStream stream;
        const Device sums(Values(10, 1));
        const Graph graph(stream, [&] {
          c.all_reduce(Block(sums.data(), 10, kType), ReduceOp::sum, in(stream));
        });
        hold_until(may_go, stream);
        graph.launch(stream);
        std::string error;
        if (c.rank() == 0 || differ) {
          error =
              message_of([&] { c.broadcast(Block(sums.data(), 10, kType), c.rank(), in(stream)); });
        }
        wait_for_error(c);
        may_go = true;
        stream.wait();
        throw std::runtime_error(c.error() + error);
      },
      options);
  for (const auto& error : errors) {
    CHECK_THAT(error, differ ? Catch::Contains("make different calls")
                             : Catch::Contains("that this rank's stream has not reached"));
  }
}

TEST_CASE("devices: a rank whose call is captured waits no longer than its limit for others",
          "[comm]") {
  if (way() != "team") return;
  auto options = options_for("");
  options.timeout = 200ms;
  const auto errors = run_on_devices(
      2,
      [](Communicator& c) {
        const OwnedStream stream;
        const Device sums(Values(10, 1));
        std::string error;
        if (c.rank() == 0) {
          const Graph graph(stream, [&] {
            error = message_of(
                [&] { c.all_reduce(Block(sums.data(), 10, kType), ReduceOp::sum, in(stream)); });
          });
        } else {
          wait_for_error(c);
          error = c.error();
        }
        throw std::runtime_error(error);
      },
      options);
  for (const auto& error : errors) CHECK_THAT(error, Catch::Contains("captured"));
}
