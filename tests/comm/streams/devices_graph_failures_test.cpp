// SPDX-License-Identifier: Apache-2.0
// Graphs that cannot go on: beside another call of their team, or after its communicator's end.
#include <chrono>
#include <span>

#include "devices.hpp"
#include "graph_of_ranks.hpp"
#include "support/gpu/cuda_on_host.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;

namespace {

/// While it lives, uncaptured kernels and copies stop midway.
struct HeldDevice {
  HeldDevice() { hold(true); }
  HeldDevice(const HeldDevice&) = delete;
  HeldDevice& operator=(const HeldDevice&) = delete;
  ~HeldDevice() { hold(false); }
  static void hold(bool does) {
    cuda_on_host_holds_kernels(does);
    cuda_on_host_holds_copies(does);
  }
};

/// The same for kernels in graphs.
struct HeldGraphs {
  HeldGraphs() { cuda_on_host_holds_graphs(true); }
  HeldGraphs(const HeldGraphs&) = delete;
  HeldGraphs& operator=(const HeldGraphs&) = delete;
  ~HeldGraphs() { cuda_on_host_holds_graphs(false); }
};

}  // namespace

TEST_CASE("devices: a graph beside another call of its team is told on all ranks", "[comm]") {
  if (way() != "team") return;
  // If copies are requested, all_gather is made of copies.
  const auto plain = GENERATE(Kind::all_reduce, Kind::all_gather);
  const auto in_graph = GENERATE(Kind::all_reduce, Kind::all_gather);
  CAPTURE(to_string(plain), to_string(in_graph));
  constexpr int kRanks = 2;
  const GpusOfRanks gpus_of_ranks;
  const OwnedStream streams[kRanks] = {GpusOfRanks::stream(0), GpusOfRanks::stream(1)};
  const OwnedStream captured[kRanks] = {GpusOfRanks::stream(0), GpusOfRanks::stream(1)};
  auto ranks = Communicator::create_all(kRanks, on_device(), GpusOfRanks::of(kRanks));
  std::vector<Device> ones, results;
  for (int rank = 0; rank < kRanks; rank++) {
    ones.push_back(GpusOfRanks::memory(rank, Values(100, 1)));
    results.push_back(GpusOfRanks::memory(rank, Values(200, 0)));
  }
  const auto call_all = [&](Kind kind, std::span<const OwnedStream> in_streams) {
    const Collective collective{kind, 100, 0};
    std::vector<Work> works;
    CallGroup group;
    for (std::size_t i = 0; i < kRanks; i++)
      works.push_back(
          *collective.make(ranks[i], ones[i].data(), results[i].data(), in(in_streams[i]), true));
    group.end();
    return works;
  };
  const Branches branches(captured);
  const Graph graph(captured[0], [&] {
    branches.fork();
    call_all(in_graph, captured);
    branches.join();
  });
  // They succeed one behind another.
  for (int i = 0; i < 3; i++) {
    graph.launch(captured[0]);
    captured[0].wait();
    for (auto& work : call_all(plain, streams)) work.wait();
    for (const auto& stream : streams) stream.wait();
  }
  CHECK(results[1].values()[0] == (plain == Kind::all_reduce ? 2 : 1));
  for (auto& rank : ranks) CHECK(rank.error().empty());

  std::vector<Work> works;
  {
    const HeldDevice held;
    works = call_all(plain, streams);
    const auto limit = std::chrono::steady_clock::now() + 60s;
    while (cuda_on_host_held_kernels() + cuda_on_host_held_copies() == 0) {
      works[0].test();
      REQUIRE(std::chrono::steady_clock::now() < limit);
    }
    graph.launch(captured[0]);
    captured[0].wait();
  }
  for (auto& work : works)
    CHECK_THAT(message_of([&] { work.wait(); }), Catch::Contains("found another one under way"));
  for (auto& rank : ranks) CHECK_THAT(rank.error(), Catch::Contains("found another one under way"));
}

TEST_CASE("devices: what ends a communicator ends a graph of its team that stands", "[comm]") {
  if (way() != "team") return;
  const auto how = GENERATE(as<std::string>(), "abort", "another rank's abort", "a late message");
  CAPTURE(how);
  constexpr int kRanks = 2;
  auto ranks = Communicator::create_all(kRanks, on_device());
  const OwnedStream streams[kRanks];
  std::vector<Device> sums;
  for (int rank = 0; rank < kRanks; rank++) sums.emplace_back(Values(100, 1));
  const Branches branches(streams);
  const Graph graph(streams[0], [&] {
    branches.fork();
    CallGroup group;
    for (std::size_t i = 0; i < kRanks; i++)
      ranks[i].all_reduce(Block(sums[i].data(), 100, kType), ReduceOp::sum, in(streams[i]));
    group.end();
    branches.join();
  });
  graph.launch(streams[0]);
  streams[0].wait();
  CHECK(sums[1].values() == Values(100, 2));
  {
    const HeldGraphs held;
    graph.launch(streams[0]);
    const auto limit = std::chrono::steady_clock::now() + 60s;
    while (cuda_on_host_held_kernels() == 0) {
      REQUIRE_FALSE(ends_within(1ms, streams[0]));
      REQUIRE(std::chrono::steady_clock::now() < limit);
    }
    // No host knows about it.
    if (how == "a late message") {
      CallOptions options;
      options.timeout = 50ms;
      std::int32_t value = 0;
      CHECK_THAT(message_of([&] { ranks[0].recv(Block(&value, 1, kType), 1, 0, options); }),
                 Catch::Contains("timed out"));
    } else {
      ranks[how == "abort" ? 0 : 1].abort("enough");
    }
    CHECK(ends_within(20s, streams[0]));
  }
  const char* const why = how == "a late message" ? "timed out" : "enough";
  for (auto& rank : ranks) {
    wait_for_error(rank);
    CHECK_THAT(rank.error(), Catch::Contains(why));
  }
  // It fails each time it is launched.
  graph.launch(streams[0]);
  streams[0].wait();
}

TEST_CASE("devices: a graph beside another call of its rank's streams is told on all ranks",
          "[comm]") {
  if (way() != "steps") return;
  const auto first = GENERATE(as<std::string>(), "plain", "graph");
  const auto second = GENERATE(as<std::string>(), "plain", "graph");
  if (first == "plain" && second == "plain") return;
  CAPTURE(first, second);
  const auto errors = run_on_devices(2, [&](Communicator& c) {
    const OwnedStream streams[2];
    const Device sums[2] = {Device(Values(500, 1)), Device(Values(500, 1))};
    std::vector<Work> works;
    const auto call = [&](std::size_t i) {
      return c.all_reduce_async(Block(sums[i].data(), 500, kType), ReduceOp::sum, in(streams[i]));
    };
    const Graph graphs[2] = {{streams[0], [&] { call(0); }}, {streams[1], [&] { call(1); }}};
    const auto begin = [&](const std::string& how, std::size_t i) {
      how == "plain" ? works.push_back(call(i)) : graphs[i].launch(streams[i]);
    };
    // They succeed one behind another.
    for (int i = 0; i < 3; i++) {
      begin(first, 0);
      streams[0].wait();
      begin(second, 1);
      streams[1].wait();
    }
    expect(sums[0].values() == Values(500, 8) && sums[1].values() == Values(500, 8), "the sums");
    expect(c.error().empty(), c.error());
    works.clear();
    c.barrier();

    // Rank 0's calls wait, because rank 1 does not come.
    if (c.rank() == 0) begin(first, 0);
    if (c.rank() == 0) begin(second, 1);
    wait_for_error(c);
    const auto error = c.error();
    // Nothing waits for it, either.
    if (c.rank() == 1) graphs[0].launch(streams[0]);
    for (const auto& stream : streams) stream.wait();
    for (auto& work : works) {
      const auto outcome = message_of([&] { work.wait(); });
      expect(outcome.find("found another one under way") != outcome.npos, "a Work: " + outcome);
    }
    throw std::runtime_error(error);
  });
  for (const auto& error : errors)
    CHECK_THAT(error, Catch::Contains("found another one under way"));
}

TEST_CASE("devices: a rank that is captured beside one that is not is refused by a team",
          "[comm]") {
  if (way() != "team") return;
  const auto errors = run_on_devices(2, [](Communicator& c) {
    const OwnedStream stream;
    const Device sums(Values(10, 1));
    const auto call = [&] {
      c.all_reduce(Block(sums.data(), 10, kType), ReduceOp::sum, in(stream));
    };
    std::string error;
    if (c.rank() == 0)
      const Graph graph(stream, [&] { error = message_of(call); });
    else
      error = message_of([&] {
        call();
        wait_for_error(c);
        c.barrier();
      });
    throw std::runtime_error(error);
  });
  for (const auto& error : errors) CHECK_THAT(error, Catch::Contains("captured in one graph"));
}
