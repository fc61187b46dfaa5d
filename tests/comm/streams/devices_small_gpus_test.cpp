// SPDX-License-Identifier: Apache-2.0
// Teams beside each other on GPUs that have no room for two of their calls at once.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "devices.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;

namespace {

/// GPUs that have no room for two calls of many lanes at once.
class SmallGpus {
 public:
  SmallGpus() { cuda_on_host_has_multiprocessors(3); }
  SmallGpus(const SmallGpus&) = delete;
  SmallGpus& operator=(const SmallGpus&) = delete;
  ~SmallGpus() { cuda_on_host_has_multiprocessors(16); }
};
/// A call of this many elements has several lanes.
constexpr std::size_t kOfManyLanes = 1 << 20;

}  // namespace

TEST_CASE("gpus: teams on the same GPUs never stand in each other's way", "[comm]") {
  const SmallGpus small;
  const auto of_rank = GENERATE(as<std::vector<int>>(), std::vector{0, 1}, std::vector{0, 1, 2});
  constexpr int kRounds = 12;
  std::atomic<bool> may_go[kRounds] = {};
  check_all_well(run_on_gpus(of_rank, [&](Communicator& c) {
    constexpr std::size_t kTeams = 2;
    std::vector<Communicator> teams;
    for (std::size_t i = 0; i < kTeams; i++) teams.push_back(c.duplicate());
    const OwnedStream streams[kTeams];
    std::vector<Device> sums;
    for (std::size_t i = 0; i < kTeams; i++) sums.emplace_back(Values(kOfManyLanes, 1));
    std::int32_t expected = 1;
    for (auto& go : may_go) {
      // The streams wait until all calls are launched.
      for (const auto& stream : streams)
        if (c.rank() == 0) hold_until(go, stream);
      for (std::size_t i = 0; i < kTeams; i++)
        teams[i].all_reduce(Block(sums[i].data(), kOfManyLanes, kType), ReduceOp::sum,
                            in(streams[i]));
      if (c.rank() == 0) go = true;
      for (const auto& stream : streams) stream.wait();
      expected *= c.size();
    }
    for (std::size_t i = 0; i < kTeams; i++) {
      expect(sums[i].values() == Values(kOfManyLanes, expected), "sums of sums");
      expect(teams[i].counters().device_memory_bytes == 0, "there was some room for each");
    }
  }));
}

TEST_CASE("gpus: graphs of teams on the same GPUs never stand in each other's way", "[comm]") {
  constexpr int kRanks = 2, kTeams = 2;
  const SmallGpus small;
  cuda_on_host_has(kGpus);
  const auto store = make_inproc_store();
  std::vector<std::vector<std::optional<Communicator>>> teams(kTeams);
  for (auto& team : teams) team.resize(kRanks);
  check_all_well(run_threads(kRanks, [&](int rank) {
    auto options = options_for("");
    options.device.ordinal = rank;
    for (std::size_t i = 0; i < kTeams; i++)
      teams[i][static_cast<std::size_t>(rank)].emplace(
          Communicator::create(make_prefix_store(store, std::to_string(i)), rank, kRanks, options));
  }));
  struct Calls {
    std::vector<std::unique_ptr<OwnedStream>> streams;
    std::vector<Device> sums;
    std::unique_ptr<Graph> graph;
  };
  std::vector<Calls> calls(kTeams);
  for (std::size_t i = 0; i < kTeams; i++) {
    for (int rank = 0; rank < kRanks; rank++) {
      check_cuda(cudaSetDevice(rank), "a device");
      calls[i].streams.push_back(std::make_unique<OwnedStream>());
      calls[i].sums.emplace_back(Values(kOfManyLanes, 1));
    }
    const auto& streams = calls[i].streams;
    const auto order = [&](std::size_t before, std::size_t behind) {
      cudaEvent_t event = nullptr;
      check_cuda(cudaSetDevice(static_cast<int>(before)), "a device");
      check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
      check_cuda(cudaEventRecord(event, *streams[before]), "recording an event");
      check_cuda(cudaStreamWaitEvent(*streams[behind], event, 0), "waiting for an event");
      check_cuda(cudaEventDestroy(event), "an event");
    };
    calls[i].graph = std::make_unique<Graph>(*streams[0], [&] {
      order(0, 1);
      CallGroup group;
      for (std::size_t rank = 0; rank < kRanks; rank++) {
        auto* const sums = calls[i].sums[rank].data();
        teams[i][rank]->all_reduce(Block(sums, kOfManyLanes, kType), ReduceOp::sum,
                                   in(*streams[rank]));
      }
      group.end();
      order(1, 0);
    });
  }
  check_cuda(cudaSetDevice(0), "a device");
  constexpr int kLaunches = 20;
  bool have_ended = true;
  for (int launch = 0; have_ended && launch < kLaunches; launch++) {
    for (const auto& each : calls) each.graph->launch(*each.streams[0]);
    for (const auto& each : calls) have_ended &= ends_within(60s, *each.streams[0]);
  }
  if (!have_ended) {
    // They never end, and freeing anything would wait for them.
    std::fputs("graphs of two teams wait for each other\n", stderr);
    std::fflush(nullptr);
    std::_Exit(1);
  }
  for (std::size_t i = 0; i < kTeams; i++) {
    calls[i].streams[0]->wait();
    for (std::size_t rank = 0; rank < kRanks; rank++)
      CHECK(calls[i].sums[rank].values() == Values(kOfManyLanes, 1 << kLaunches));
    for (auto& rank : teams[i]) {
      CHECK(rank->error().empty());
      CHECK(rank->counters().device_memory_bytes == 0);
    }
  }
}

TEST_CASE("gpus: what is gone is in nobody's way", "[comm]") {
  const SmallGpus small;
  cuda_on_host_has(kGpus);
  auto options = options_for("");
  options.device.ordinal = 15;
  // While it lives, ended teams are kept.
  const auto keeper = Communicator::create_all(1, options);
  const std::vector<std::vector<int>> all = {{0, 1},    {1, 0},    {0, 1, 0}, {0, 1, 1},
                                             {1, 0, 0}, {1, 0, 1}, {0, 0, 1}, {1, 1, 0}};
  for (const auto& of_rank : all) {
    check_all_well(run_on_gpus(of_rank, [](Communicator& c) {
      const OwnedStream stream;
      const Device sums(Values(kOfManyLanes, 1));
      c.all_reduce(Block(sums.data(), kOfManyLanes, kType), ReduceOp::sum, in(stream));
      stream.wait();
      expect(c.counters().device_memory_bytes == 0, "it is not by a team");
    }));
  }
}
