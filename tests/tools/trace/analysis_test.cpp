// SPDX-License-Identifier: Apache-2.0
// Records made from the library's schedules, with times of a simulated machine whose behaviour is
// known.
#include "trace/analysis.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

#include "algorithms/algorithms.hpp"

using namespace ccoll;
using namespace ccoll::trace;

namespace {

/// Executes the programs one step at a time, in random order among runnable steps. Every step takes
/// `work`, and every message arrives when it is sent.
class Machine {
 public:
  Machine(const Problem& problem, const Choice& choice, std::vector<std::uint64_t> begins,
          std::mt19937_64& random)
      : random_(random) {
    for (Rank rank = 0; rank < problem.size; rank++) {
      call_.programs.push_back(make_program(problem, choice, rank));
      auto& run = call_.ranks.emplace_back(CallRun{}).value();
      run.begin = begins[rank];
      free_.push_back(begins[rank]);
      lanes_.emplace_back(call_.programs[rank].lanes.size(), At{0, begins[rank]});
    }
    windows_ = window_count(problem, call_.programs[0].blocks, choice);
  }

  WholeCall run() {
    while (run_any()) {
    }
    for (Rank rank = 0; rank < call_.ranks.size(); rank++) call_.ranks[rank]->end = free_[rank];
    return std::move(call_);
  }

 private:
  struct At {
    std::size_t done = 0;  ///< steps, over all windows
    std::uint64_t since = 0;
  };

  bool run_any() {
    std::vector<std::pair<Rank, std::uint16_t>> able;
    for (Rank rank = 0; rank < lanes_.size(); rank++)
      for (std::uint16_t lane = 0; lane < lanes_[rank].size(); lane++)
        if (can_run(rank, lane)) able.emplace_back(rank, lane);
    if (able.empty()) return false;
    const auto [rank, lane] = able[random_() % able.size()];
    run_step(rank, lane);
    return true;
  }

  const Step* present(Rank rank, std::uint16_t lane) const {
    const auto& program = call_.programs[rank];
    const auto& steps = program.lanes[lane].steps;
    const auto& at = lanes_[rank][lane];
    if (steps.empty() || window_of(rank, lane) >= windows_) return nullptr;
    return &steps[at.done % steps.size()];
  }
  std::uint64_t window_of(Rank rank, std::uint16_t lane) const {
    const auto& program = call_.programs[rank];
    const auto& steps = program.lanes[lane].steps;
    return program.lanes[lane].stripe + lanes_[rank][lane].done / steps.size() * program.stripes;
  }
  const std::uint64_t* after_of(Rank rank, const Step& step, std::uint64_t window) const {
    const auto found = ended_.find({rank, step.after->lane, step.after->step, window});
    return found == ended_.end() ? nullptr : &found->second;
  }

  bool can_run(Rank rank, std::uint16_t lane) {
    const auto* step = present(rank, lane);
    if (step == nullptr) return false;
    if (step->after && after_of(rank, *step, window_of(rank, lane)) == nullptr) return false;
    return std::ranges::all_of(step->receives, [&](const Receive& receive) {
      return !links_[{receive.peer, receive.lane, rank}].empty();
    });
  }

  void run_step(Rank rank, std::uint16_t lane) {
    const auto& step = *present(rank, lane);
    const auto window = window_of(rank, lane);
    auto& at = lanes_[rank][lane];
    StepRun run;
    run.lane = lane;
    run.step = static_cast<std::uint32_t>(at.done % call_.programs[rank].lanes[lane].steps.size());
    run.window = static_cast<std::uint32_t>(window);
    run.begin = at.since;
    run.moved = std::max(at.since, free_[rank]);
    const auto wait_for = [&](std::uint64_t until, Awaited what, Rank peer) {
      if (until <= run.moved) return;
      run.moved = until;
      run.awaited = what;
      run.peer = peer;
    };
    if (step.after) wait_for(*after_of(rank, step, window), Awaited::step, rank);
    for (const auto& receive : step.receives) {
      auto& link = links_[{receive.peer, receive.lane, rank}];
      wait_for(link.front(), Awaited::message, receive.peer);
      link.erase(link.begin());
    }
    run.end = run.moved + 1 + random_() % 100;
    for (const auto to : step.sends) links_[{rank, lane, to}].push_back(run.end);
    ended_[{rank, lane, run.step, window}] = run.end;
    at.done++;
    at.since = free_[rank] = run.end;
    call_.ranks[rank]->steps.push_back(run);
  }

  std::mt19937_64& random_;
  WholeCall call_;
  std::uint64_t windows_ = 0;
  std::vector<std::vector<At>> lanes_;
  std::vector<std::uint64_t> free_;  ///< by rank: when its thread becomes idle
  std::map<std::tuple<Rank, std::uint16_t, Rank>, std::vector<std::uint64_t>> links_;
  std::map<std::tuple<Rank, std::uint16_t, std::uint32_t, std::uint64_t>, std::uint64_t> ended_;
};

struct Case {
  Problem problem;
  Choice choice;
};

Case random_case(std::mt19937_64& random) {
  Case made;
  const CatalogueEntry* entry = nullptr;
  do entry = &catalogue()[random() % catalogue().size()];
  while (entry->by_host);
  made.problem.kind = entry->kind;
  made.problem.size = static_cast<Rank>(2 + random() % 7);
  made.problem.root = static_cast<Rank>(random() % made.problem.size);
  made.problem.count = made.problem.kind == Kind::barrier ? 1 : made.problem.size * 8;
  made.choice = {entry->algorithm, static_cast<std::uint16_t>(1 + random() % 3), 1 + random() % 20};
  return made;
}

std::size_t sends_of(const WholeCall& call) {
  std::size_t sends = 0;
  for (Rank rank = 0; rank < call.ranks.size(); rank++)
    for (const auto& run : call.ranks[rank]->steps)
      sends += call.programs[rank].lanes[run.lane].steps[run.step].sends.size();
  return sends;
}

}  // namespace

TEST_CASE("trace: every message is matched with the step that sent it, for any algorithm",
          "[trace][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 200; i++) {
    const auto [problem, choice] = random_case(random);
    CAPTURE(to_string(problem.kind), to_string(choice.algorithm), problem.size);
    const auto call =
        Machine(problem, choice, std::vector<std::uint64_t>(problem.size, 1000), random).run();
    REQUIRE(check(call));
    const auto passings = passings_of(call);
    CHECK(passings.unmatched == 0);
    CHECK(passings.all.size() == sends_of(call));
    bool in_order = true, to_whom_it_was_sent = true;
    for (const auto& [from, to] : passings.all) {
      const auto& sent = call.ranks[from.rank]->steps[from.index];
      const auto& received = call.ranks[to.rank]->steps[to.index];
      in_order &= sent.end <= received.moved && sent.window == received.window;
      const auto& step = call.programs[from.rank].lanes[sent.lane].steps[sent.step];
      to_whom_it_was_sent &= std::ranges::count(step.sends, to.rank) == 1;
    }
    CHECK(in_order);
    CHECK(to_whom_it_was_sent);
  }
}

TEST_CASE("trace: the critical path leads without a gap from a rank's beginning to the last step",
          "[trace][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 200; i++) {
    const auto [problem, choice] = random_case(random);
    CAPTURE(to_string(problem.kind), to_string(choice.algorithm), problem.size);
    std::vector<std::uint64_t> begins;
    for (Rank rank = 0; rank < problem.size; rank++) begins.push_back(1000 + random() % 500);
    const auto call = Machine(problem, choice, begins, random).run();
    const auto path = critical_path(call, passings_of(call));
    REQUIRE(!path.empty());
    CHECK(path.front().cause == PathPiece::Cause::began);
    CHECK(path.front().begin == begins[path.front().step.rank]);
    std::uint64_t last = 0;
    for (const auto& run : call.ranks) last = std::max(last, *run->end);
    CHECK(path.back().end == last);
    bool whole = true, no_idle = true;
    for (std::size_t piece = 0; piece < path.size(); piece++) {
      whole &= path[piece].begin <= path[piece].moved && path[piece].moved <= path[piece].end;
      whole &= piece == 0 || path[piece].begin == path[piece - 1].end;
      // This machine's messages take no time, so nothing on the path ever waits.
      no_idle &= path[piece].begin == path[piece].moved;
    }
    CHECK(whole);
    CHECK(no_idle);
  }
}

TEST_CASE("trace: a rank that is late is where the critical path begins, and is waited for",
          "[trace][property]") {
  std::mt19937_64 random(1);
  for (const auto& entry : catalogue()) {
    if (entry.by_host || !(entry.kind == Kind::all_reduce || entry.kind == Kind::barrier)) continue;
    CAPTURE(to_string(entry.algorithm));
    Problem problem;
    problem.kind = entry.kind;
    problem.size = 4;
    problem.count = entry.kind == Kind::barrier ? 1 : 64;
    const std::uint64_t late = 1'000'000;
    const auto call = Machine(problem, {entry.algorithm, 1, 100}, {0, 0, late, 0}, random).run();
    const auto path = critical_path(call, passings_of(call));
    CHECK(path.front().step.rank == 2);
    CHECK(path.front().begin == late);
    std::uint64_t for_late = 0;
    for (const Rank rank : {0, 1, 3})
      for (const auto& wait : waits_of(rank, *call.ranks[rank]))
        if (wait.peer == 2) for_late = std::max(for_late, wait.ns);
    CHECK(for_late > late / 2);
  }
}

TEST_CASE("trace: times in which several lanes wait for one rank count once", "[trace][unit]") {
  CallRun run;
  run.steps.push_back({0, 0, 0, Awaited::message, 1, 8, 10, 30, 31});
  run.steps.push_back({1, 0, 0, Awaited::message, 1, 8, 20, 50, 51});
  run.steps.push_back({2, 0, 0, Awaited::room, 1, 8, 20, 25, 26});
  run.steps.push_back({3, 0, 0, Awaited::nothing, 1, 8, 20, 99, 99});
  run.steps.push_back({4, 0, 0, Awaited::message, 2, 8, 100, 101, 102});
  CHECK(waits_of(0, run) == std::vector<Wait>{{0, 1, Awaited::message, 40},
                                              {0, 1, Awaited::room, 5},
                                              {0, 2, Awaited::message, 1}});
}

TEST_CASE("trace: records that contradict themselves are refused or end the path",
          "[trace][unit]") {
  Problem problem;
  problem.size = 2;
  problem.count = 2;
  const Choice choice{Algorithm::ring, 1, 2};
  std::mt19937_64 random(1);
  auto call = Machine(problem, choice, {0, 0}, random).run();
  // Each waits for a message that the other sends only later: a cycle.
  for (auto& run : call.ranks)
    for (auto& step : run->steps) {
      step.awaited = Awaited::message;
      step.peer = static_cast<Rank>(&run == &call.ranks[0] ? 1 : 0);
      step.begin = step.moved = step.end = 5;
    }
  CHECK(critical_path(call, passings_of(call)).size() <= sends_of(call) * 2);
  call.ranks[0]->steps[0].step = 99;
  REQUIRE_FALSE(check(call));
  CHECK_THAT(check(call).error().message, Catch::Contains("step 99 of lane 0"));
}

namespace {

/// Each rank's record of the problem's blocks, cut as tracing cuts it.
WholeCall recorded(const Problem& whole) {
  WholeCall call;
  for (Rank rank = 0; rank < whole.size; rank++) {
    const auto counts = view_of(whole, rank).block_counts;
    CallRun run;
    for (std::size_t i = 0; i < counts.size(); i++) {
      if (i % BlocksEntry::kCounts == 0) run.blocks.push_back({static_cast<std::uint32_t>(i), {}});
      run.blocks.back().counts[i % BlocksEntry::kCounts] = counts[i];
    }
    call.ranks.emplace_back(std::move(run));
  }
  return call;
}

}  // namespace

TEST_CASE("trace: the ranks' records together say how large every block was", "[trace][unit]") {
  const Rank size = 7;
  for (const Kind kind :
       {Kind::all_gather, Kind::reduce_scatter, Kind::gather, Kind::scatter, Kind::all_to_all}) {
    CAPTURE(to_string(kind));
    const bool by_pairs = kind == Kind::all_to_all;
    Planned planned;
    planned.ragged = true;
    planned.problem.kind = kind;
    planned.problem.size = size;
    planned.problem.root = by_pairs ? 0 : 2;
    auto whole = planned.problem;
    for (Rank i = 0; i < (by_pairs ? size * size : size); i++)
      whole.block_counts.push_back(i * 5 % 4);
    auto call = recorded(whole);
    CHECK(whole_problem(planned, call) == whole);
    // Another rank's record has the same, unless sizes differ for each pair.
    call.ranks[5].reset();
    CHECK(whole_problem(planned, call).has_value() == !by_pairs);
    // Without the root's record, sizes that ranks keep private are unknown.
    call.ranks[2].reset();
    CHECK(whole_problem(planned, call).has_value() == !sizes_are_private(kind));
    planned.ragged = false;
    CHECK(whole_problem(planned, call) == planned.problem);
  }
}
