// SPDX-License-Identifier: Apache-2.0

/// The sums that the verifier does not measure, counted from the programs.

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include "algorithms/sweep.hpp"
#include "support/effort.hpp"

namespace ccoll {
namespace {

std::uint64_t elems_of(const Problem& problem, const Program& program, const Step& step) {
  std::uint64_t elems = 0;
  for (const Operand& operand : step.local.empty() ? step.store : step.local) {
    for (std::uint32_t i = 0; i < operand.blocks; ++i) {
      elems += block_elems(problem, program.blocks, (operand.block + i) % program.blocks);
    }
  }
  return elems;
}

/// The load of a rank's steps: all of them, or only those with ranks of other hosts.
Load load_of(const Problem& problem, const Program& program, bool across) {
  const auto counts = [&](Rank peer) {
    return !across ||
           (!problem.host_of.empty() && problem.host_of[peer] != problem.host_of[program.rank]);
  };
  Load load;
  for (const Lane& lane : program.lanes) {
    for (const Step& step : lane.steps) {
      const std::uint64_t elems = elems_of(problem, program, step);
      if (elems == 0) continue;
      const auto sends = static_cast<std::uint64_t>(std::ranges::count_if(step.sends, counts));
      load.messages += sends;
      load.elems_sent += elems * sends;
      if (sends > 1) load.elems_repeated += elems * (sends - 1);
      const auto receives =
          static_cast<std::uint64_t>(std::ranges::count_if(step.receives, counts, &Receive::peer));
      const std::uint64_t folds = receives + (step.local.empty() ? 0 : 1);
      if (folds > 0) load.elems_reduced += elems * (folds - 1);
    }
  }
  return load;
}

struct Loads {
  Load busiest;
  Load total;
  void add(const Load& load) {
    busiest.messages = std::max(busiest.messages, load.messages);
    busiest.elems_sent = std::max(busiest.elems_sent, load.elems_sent);
    busiest.elems_repeated = std::max(busiest.elems_repeated, load.elems_repeated);
    busiest.elems_reduced = std::max(busiest.elems_reduced, load.elems_reduced);
    total.messages += load.messages;
    total.elems_sent += load.elems_sent;
    total.elems_repeated += load.elems_repeated;
    total.elems_reduced += load.elems_reduced;
  }
};

/// The longest chain of messages between hosts that wait for each other: by the order of a lane's
/// steps, by `after`, or because one is sent after another has arrived.
std::uint64_t longest_crossing(const Problem& problem, const std::vector<Program>& programs) {
  struct Progress {
    std::vector<std::uint64_t> depths;  // of the steps that are done
  };
  std::vector<std::vector<Progress>> lanes;
  for (const Program& program : programs) lanes.emplace_back(program.lanes.size());
  std::map<std::tuple<Rank, std::uint16_t, Rank>, std::deque<std::uint64_t>> links;
  std::uint64_t longest = 0;
  // Whether the lane's next step could be done.
  const auto advance = [&](const Program& program, std::uint16_t number) {
    auto& done = lanes[program.rank][number].depths;
    const auto& steps = program.lanes[number].steps;
    if (done.size() == steps.size()) return false;
    const Step& step = steps[done.size()];
    const bool moves = elems_of(problem, program, step) > 0;
    std::uint64_t depth = done.empty() ? 0 : done.back();
    if (step.after) {
      const auto& other = lanes[program.rank][step.after->lane].depths;
      if (other.size() <= step.after->step) return false;
      depth = std::max(depth, other[step.after->step]);
    }
    const auto link_of = [&](const Receive& receive) -> auto& {
      return links[{receive.peer, receive.lane, program.rank}];
    };
    for (const Receive& receive : step.receives)
      if (moves && link_of(receive).empty()) return false;
    for (const Receive& receive : step.receives) {
      if (!moves) continue;
      depth = std::max(depth, link_of(receive).front());
      link_of(receive).pop_front();
    }
    for (const Rank to : step.sends) {
      const bool crosses = problem.host_of[to] != problem.host_of[program.rank];
      if (moves) links[{program.rank, number, to}].push_back(depth + (crosses ? 1 : 0));
    }
    done.push_back(depth);
    longest = std::max(longest, depth);
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (const Program& program : programs)
      for (std::uint16_t lane = 0; lane < program.lanes.size(); ++lane)
        while (advance(program, lane)) moved = true;
  }
  return longest;
}

std::string shown(const Load& load) {
  return fmt::format("{} messages, {} sent, {} repeated, {} reduced", load.messages,
                     load.elems_sent, load.elems_repeated, load.elems_reduced);
}

TEST_CASE("the loads of the formulas are those of the programs", "[algorithms][property]") {
  for (const CatalogueEntry& entry : catalogue()) {
    for (Rank size = 1; size <= (testing::reduced() ? 11U : 40U); ++size) {
      for (const std::uint64_t count : {0U, 1U, 2U, size - 1, size, size + 1, 3 * size, 1000U}) {
        Problem problem;
        problem.kind = entry.kind;
        problem.size = size;
        problem.root = test::is_rooted(entry.kind) ? size / 3 : 0;
        problem.count = entry.kind == Kind::barrier ? 1 : count;
        for (const testing::HostOf& hosts : testing::host_layouts(entry, size)) {
          problem.host_of = hosts;
          const Theory theory = entry.theory(problem);
          Loads loads, across;
          std::vector<Program> programs;
          for (Rank rank = 0; rank < size; ++rank) {
            const Program program = make_program(problem, {entry.algorithm, 1, 1}, rank);
            REQUIRE(program.blocks == theory.blocks);
            loads.add(load_of(problem, program, false));
            across.add(load_of(problem, program, true));
            programs.push_back(program);
          }
          INFO(test::describe(problem, {entry.algorithm, 1, 1}));
          CHECK(shown(theory.busiest) == shown(loads.busiest));
          CHECK(shown(theory.total) == shown(loads.total));
          if (!theory.across) continue;
          CHECK(shown(theory.across->busiest) == shown(across.busiest));
          CHECK(shown(theory.across->total) == shown(across.total));
          if (hosts.empty()) continue;
          // With fewer elements than blocks it is an upper bound.
          const std::uint64_t depth = longest_crossing(problem, programs);
          CHECK(depth <= theory.across->depth);
          if (problem.count >= theory.blocks) CHECK(depth == theory.across->depth);
        }
      }
    }
  }
}

TEST_CASE("every kind has an algorithm and every name is understood", "[algorithms]") {
  for (const CatalogueEntry& entry : catalogue()) {
    CHECK(find_algorithm(entry.kind, entry.algorithm) == &entry);
    CHECK(parse_algorithm(to_string(entry.algorithm)) == entry.algorithm);
    CHECK(parse_kind(to_string(entry.kind)) == entry.kind);
    CHECK_FALSE(entry.source.empty());
  }
  for (int kind = 0; kind <= static_cast<int>(Kind::barrier); ++kind) {
    CHECK_FALSE(algorithms_for(static_cast<Kind>(kind)).empty());
  }
  CHECK_FALSE(parse_algorithm("rings"));
  CHECK_FALSE(parse_kind("allreduce"));
  CHECK(find_algorithm(Kind::barrier, Algorithm::ring) == nullptr);
}

}  // namespace
}  // namespace ccoll
