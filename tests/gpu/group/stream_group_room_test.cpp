// SPDX-License-Identifier: Apache-2.0
// Several groups of the same ranks beside each other on small GPUs.
#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gpu/program/block_budget.hpp"
#include "rank_processes.hpp"
#include "stream_group_parts.hpp"
#include "support/effort.hpp"
#include "support/gpu/cuda_on_host.hpp"
#include "support/gpu/team_on_host.hpp"

namespace ccoll::test {

namespace {

/// A group, and the program of a ring with as many lanes (blocks) as it may have.
struct FullGroup {
  std::unique_ptr<GroupBench> bench;
  TeamCase made;
  const device::GroupProgram* program = nullptr;

  FullGroup(std::unique_ptr<GroupBench> of, Rank size)
      : bench(std::move(of)),
        made(test::case_of(Kind::all_reduce, Algorithm::ring, size, 20'000, 100)) {
    for (made.choice.lanes = 33; program == nullptr && made.choice.lanes > 1;) {
      made.choice.lanes--;
      const auto loaded = bench->load(made);
      if (loaded) program = *loaded;
      const bool is_full = loaded || loaded.error().kind == ErrorKind::unsupported;
      check(is_full, "too many lanes: " + (loaded ? "" : loaded.error().message));
    }
  }
  std::uint32_t blocks() const { return program == nullptr ? 0 : made.choice.lanes; }
};

/// Begins a call of each group in that order, and waits for all.
void run_all(std::vector<FullGroup>& groups, const std::vector<std::size_t>& order,
             std::mt19937_64& random) {
  testing::TeamOnHost host(512, 8192);
  std::vector<TeamMemory> memory;
  for (const auto& group : groups) memory.emplace_back(group.made, random);
  auto expected = memory;
  std::vector<GroupBench::Trip> trips;
  for (std::size_t i = 0; i < groups.size(); i++) {
    host.run(test::lowered_for_streams(groups[i].made), expected[i].buffers(), 1);
    trips.emplace_back(*groups[i].bench, 0, memory[i]);
  }
  for (const std::size_t i : order)
    check(groups[i].bench->begin(groups[i].program, trips[i]).has_value(), "a call begins");
  for (std::size_t i = 0; i < groups.size(); i++) {
    const Rank rank = groups[i].bench->rank();
    const Status ended = groups[i].bench->group().wait(in(kLong));
    check(ended.has_value(), fmt::format("group {}: {}", i, ended ? "" : ended.error().message));
    check(trips[i].come_back().has_value() &&
              std::ranges::equal(memory[i].all(rank), expected[i].all(rank)),
          fmt::format("what group {} leaves", i));
  }
}

}  // namespace

/// Several groups of the same ranks, on small GPUs. Each group's share fits beside the others' on
/// each GPU and is the same on all ranks. All run at once, in any order on each rank. If one rank's
/// GPU has no room left, there is no group.
void test_room(unsigned seed) {
  constexpr Rank kSize = 3;
  run_processes("room", kSize, [&](Rank rank, device::Exchange& exchange) {
    constexpr int kMultiprocessors[kSize] = {64, 3, 7};
    cuda_on_host_has_multiprocessors(kMultiprocessors[rank]);
    auto options = options_of(rank, kSize);
    options.shared_bytes = 4 << 20;
    options.most_blocks = 0;
    options.trial = kLong;
    // A block of the smallest size for which a multiprocessor has room.
    const auto all = 32 * static_cast<std::uint32_t>(kMultiprocessors[rank]);
    const auto room = [&] {
      return device::BlockBudget::of_process().room(nullptr, options.device, all);
    };
    const auto at_first = room();
    std::vector<FullGroup> groups;
    std::string said;
    while (said.empty() && groups.size() < 20) {
      auto made = GroupBench::make(options, exchange, in(kLong));
      if (made) groups.emplace_back(std::move(*made), kSize);
      if (!made) said = made.error().message;
    }
    check(groups.size() > 2 &&
              said.find("rank 1: GPU 1 has room for 2 blocks, 4 are needed") != said.npos,
          fmt::format("{} groups, then: {}", groups.size(), said));

    std::string text;
    std::uint32_t blocks = 0;
    for (const auto& group : groups) {
      text += fmt::format(" {}", group.blocks());
      blocks += group.blocks();
      check(group.blocks() >= device::kFewestGroupBlocks, "too few:" + text);
    }
    for (const auto& other : value_or_throw(exchange.swap(text, {}, in(kLong))))
      check(other.bytes == text, fmt::format("{} here, {} elsewhere", text, other.bytes));
    check(2 * blocks <= all, "too many for two calls of each:" + text);

    std::mt19937_64 random(seed), own(seed + rank);
    std::vector<std::size_t> order(groups.size());
    std::iota(order.begin(), order.end(), 0U);
    // At first the orders differ as much as possible.
    if (rank == 1) std::ranges::reverse(order);
    for (int round = 0; round < testing::by_effort(4, 8, 60) && failures == 0; round++) {
      run_all(groups, order, random);
      std::ranges::shuffle(order, own);
    }
    value_or_throw(exchange.swap("", {}, in(kLong)));
    groups.pop_back();
    check(GroupBench::make(options, exchange, in(kLong)).has_value(),
          "what is gone is in nobody's way");
    check(room() < at_first, "teams have as much as before");
    value_or_throw(exchange.swap("", {}, in(kLong)));
    groups.clear();
    check(room() == at_first, "all is given back");
  });
}

/// No program of one lane has more blocks than a group's minimum.
void test_fewest_blocks() {
  std::mt19937_64 random(1);
  for (const auto& entry : catalogue()) {
    for (Rank size = 1; size <= device::kMostTeamDevices && !entry.by_host; size++) {
      auto made = test::random_case(entry, size, random);
      made.choice.lanes = 1;
      for (Rank rank = 0; rank < size; rank++) made.devices.push_back(rank);
      const auto lowered = made.lowered();
      for (Rank rank = 0; rank < size; rank++) {
        const auto blocks = lowered.blocks_of(rank).size();
        check(blocks <= device::kFewestGroupBlocks,
              fmt::format("{}: {} blocks", made.text(), blocks));
      }
    }
  }
}

}  // namespace ccoll::test
