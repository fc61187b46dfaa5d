// SPDX-License-Identifier: Apache-2.0
#include "verify/verify.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "samples.hpp"
#include "schedule/text.hpp"

namespace ccoll {
namespace {

using samples::input;
using samples::output;
using samples::step;

using Programs = std::vector<Program>;

Report verify_all_reduce(const Programs& programs, std::uint64_t count = 0,
                         std::uint64_t slice_elems = 2) {
  Problem problem;
  problem.size = static_cast<Rank>(programs.size());
  // Three windows, the last uneven.
  problem.count = count != 0 ? count : programs[0].blocks * std::uint64_t{4} + 1;
  return verify(problem, {Algorithm::ring, 1, slice_elems},
                [&](Rank rank) { return programs[rank]; });
}

bool has(const Report& report, FindingKind kind) {
  return std::ranges::any_of(report.findings, [&](const Finding& f) { return f.kind == kind; });
}

Programs copied(Programs programs, std::uint16_t copies) {
  for (Program& program : programs) program = striped(std::move(program), copies);
  return programs;
}

struct Sample {
  std::string name;
  Programs programs;
};

std::vector<Sample> all_samples() {
  std::vector<Sample> all;
  for (Rank n = 2; n <= 6; ++n) all.push_back({fmt::format("ring of {}", n), samples::ring(n)});
  all.push_back({"exchange", samples::exchange()});
  all.push_back({"tree", samples::tree()});
  return all;
}

TEST_CASE("verifier: accepts correct schedules at every count and over several lanes",
          "[schedule][verify]") {
  for (const Sample& sample : all_samples()) {
    CAPTURE(sample.name);
    const auto& programs = sample.programs;
    for (const VerifyCase& c :
         verify_cases(Kind::all_reduce, Algorithm::ring, programs[0].size, 0, programs[0].blocks)) {
      CAPTURE(c.name);
      const Programs used = copied(programs, c.choice.lanes);
      const Report report = verify(c.problem, c.choice, [&](Rank rank) { return used[rank]; });
      INFO(report.text());
      CHECK(report.ok());
      CHECK(report.slots_needed >= 1);
    }
  }
}

TEST_CASE("verifier: a ring's slots, depth, messages, elements and roundings are the theory's",
          "[schedule][verify]") {
  for (Rank n = 2; n <= 9; ++n) {
    CAPTURE(n);
    const Report report = verify_all_reduce(samples::ring(n), n * 6, 2);
    INFO(report.text());
    REQUIRE(report.ok());
    CHECK(report.windows == 3);
    CHECK(report.slots_needed == 2);
    CHECK(report.depth == 2 * (n - 1));
    CHECK(report.max_messages == 2 * (n - 1));
    CHECK(report.max_elems_sent == 2 * (n - 1) * 6);
    CHECK(report.max_blocks_per_message == 1);
    CHECK(report.roundings == n - 1);
  }
  const Report tree = verify_all_reduce(samples::tree(), 6, 2);
  CHECK(tree.depth == 2);
  CHECK(tree.roundings == 1);
  CHECK(tree.max_messages == 2);
}

TEST_CASE("verifier: rejects a schedule that lacks any one step", "[schedule][verify][property]") {
  for (const Sample& sample : all_samples()) {
    for (Rank rank = 0; rank < sample.programs.size(); ++rank) {
      for (std::size_t lane = 0; lane < sample.programs[rank].lanes.size(); ++lane) {
        for (std::size_t i = 0; i < sample.programs[rank].lanes[lane].steps.size(); ++i) {
          CAPTURE(sample.name, rank, lane, i);
          Programs programs = sample.programs;
          auto& steps = programs[rank].lanes[lane].steps;
          steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(i));
          CHECK_FALSE(verify_all_reduce(programs).ok());
        }
      }
    }
  }
}

TEST_CASE("verifier: rejects a ring with any two neighbouring steps swapped",
          "[schedule][verify][property]") {
  for (Rank n = 3; n <= 5; ++n) {
    const Programs right = samples::ring(n);
    for (std::size_t i = 0; i + 1 < right[1].lanes[0].steps.size(); ++i) {
      CAPTURE(n, i);
      Programs programs = right;
      std::swap(programs[1].lanes[0].steps[i], programs[1].lanes[0].steps[i + 1]);
      CHECK_FALSE(verify_all_reduce(programs).ok());
    }
  }
}

TEST_CASE("verifier: rejects a ring with any step's block or peer changed",
          "[schedule][verify][property]") {
  for (Rank n = 3; n <= 5; ++n) {
    const Programs right = samples::ring(n);
    for (std::size_t i = 0; i < right[1].lanes[0].steps.size(); ++i) {
      CAPTURE(n, i);
      const auto rejected = [&](auto&& change) {
        Programs programs = right;
        if (!change(programs[1].lanes[0].steps[i])) return true;
        return !verify_all_reduce(programs).ok();
      };
      CHECK(rejected([](Step& s) { return !s.local.empty() && ++s.local[0].block; }));
      CHECK(rejected([](Step& s) { return !s.store.empty() && ++s.store[0].block; }));
      CHECK(rejected([](Step& s) {
        if (s.receives.empty()) return false;
        s.receives[0].peer = 2;
        return true;
      }));
      CHECK(rejected([](Step& s) {
        if (s.sends.empty()) return false;
        s.sends[0] = 0;
        return true;
      }));
    }
  }
}

TEST_CASE("verifier: finish must come once, and not before all contributions are in",
          "[schedule][verify]") {
  const std::size_t last_reduction = 3;
  Programs missing = samples::ring(4);
  missing[2].lanes[0].steps[last_reduction].finish = false;
  CHECK(has(verify_all_reduce(missing), FindingKind::finish));

  Programs early = samples::ring(4);
  early[2].lanes[0].steps[last_reduction - 1].finish = true;
  CHECK(has(verify_all_reduce(early), FindingKind::finish));

  Programs twice = samples::ring(4);
  twice[2].lanes[0].steps[last_reduction + 1].finish = true;
  CHECK(has(verify_all_reduce(twice), FindingKind::finish));
}

TEST_CASE("verifier: a contribution that is combined twice is a wrong result",
          "[schedule][verify]") {
  Programs programs = samples::exchange();
  // Rank 0 sends back its result instead of its contribution.
  programs[0].lanes[0].steps = {
      step({{1, 0}}, {input(0)}, {output(0)}, {}),
      step({}, {output(0)}, {}, {1}),
  };
  programs[0].lanes[0].steps[0].finish = true;
  const Report report = verify_all_reduce(programs);
  INFO(report.text());
  CHECK(has(report, FindingKind::finish));
  programs[0].lanes[0].steps[0].finish = false;
  programs[1].lanes[0].steps[1].finish = false;
  CHECK(has(verify_all_reduce(programs), FindingKind::result));
}

TEST_CASE("verifier: a fused exchange deadlocks and the cycle is named", "[schedule][verify]") {
  Programs programs = samples::exchange();
  for (Rank rank = 0; rank < 2; ++rank) {
    programs[rank].lanes[0].steps = {
        step({{1 - rank, 0}}, {input(0)}, {output(0)}, {1 - rank}),
    };
    programs[rank].lanes[0].steps[0].finish = true;
  }
  const Report report = verify_all_reduce(programs);
  REQUIRE(has(report, FindingKind::deadlock));
  CHECK(report.findings[0].message.find("rank 0 lane 0 step 0 window 0 waits for a slice from "
                                        "rank 1 lane 0") != std::string::npos);
  CHECK(report.findings[0].message.find("a cycle of 2") != std::string::npos);
}

TEST_CASE("verifier: a lend that the peer may still read when it is overwritten is a race",
          "[schedule][verify]") {
  Programs programs = samples::exchange();
  programs[0].lanes[0].steps[0].lend = Lend::always;
  const Report in_place = verify_all_reduce(programs);
  INFO(in_place.text());
  CHECK(has(in_place, FindingKind::race));
  CHECK(in_place.text().find("rank 0 lane 0 step 1") != std::string::npos);

  // The next window overwrites scratch memory. Only room in the link orders windows: rank 0 goes on
  // to the next before rank 1 has popped.
  Programs scratch = samples::exchange();
  Lane& lane = scratch[0].lanes[0];
  lane.scratch_blocks = 1;
  lane.steps = {step({}, {input(0)}, {{Buffer::scratch, 0, 1}}, {}),
                step({{1, 0}}, {input(0)}, {output(0)}, {}),
                step({}, {{Buffer::scratch, 0, 1}}, {}, {1})};
  lane.steps[1].finish = true;
  CHECK(verify_all_reduce(scratch).text().empty());
  lane.steps[2].lend = Lend::always;
  CHECK(has(verify_all_reduce(scratch), FindingKind::race));
  // A single window has no next one.
  CHECK(verify_all_reduce(scratch, 2, 2).text().empty());
}

TEST_CASE("verifier: lending what lies in no memory is malformed", "[schedule][verify]") {
  Programs programs = samples::ring(4);
  programs[1].lanes[0].steps[1].lend = Lend::always;
  CHECK(has(verify_all_reduce(programs), FindingKind::malformed));
}

TEST_CASE("verifier: lanes joined by nothing race", "[schedule][verify]") {
  Programs programs = samples::tree();
  programs[0].lanes[1].steps[0].after.reset();
  CHECK(has(verify_all_reduce(programs), FindingKind::race));

  programs[0].lanes[1].steps[0].after = After{0, 7};
  CHECK(has(verify_all_reduce(programs), FindingKind::malformed));

  // Two lanes that wait for each other.
  programs = samples::tree();
  programs[0].lanes[0].steps[0].after = After{1, 0};
  CHECK(has(verify_all_reduce(programs), FindingKind::deadlock));
}

TEST_CASE("verifier: reading input after the output was stored fails in place",
          "[schedule][verify]") {
  Programs programs = samples::exchange();
  programs[0].lanes[0].steps = {
      step({{1, 0}}, {input(0)}, {output(0)}, {}),
      step({}, {input(0)}, {}, {1}),
  };
  programs[0].lanes[0].steps[0].finish = true;
  CHECK(has(verify_all_reduce(programs), FindingKind::in_place));
}

TEST_CASE("verifier: ranks that combine in different order are found", "[schedule][verify]") {
  // All send to all. Rank 2 combines 0 with 1 and then itself, in two steps; the others in one.
  Programs programs;
  for (Rank rank = 0; rank < 3; ++rank) {
    const Rank low = rank == 0 ? 1 : 0;
    const Rank high = rank == 2 ? 1 : 2;
    Program& program = programs.emplace_back(Program{rank, 3, 1, 1, {}});
    auto& steps = program.lanes.emplace_back().steps;
    steps.push_back(step({}, {input(0)}, {}, {low, high}));
    steps.push_back(step({{low, 0}, {high, 0}}, {input(0)}, {output(0)}, {}));
    steps.back().finish = true;
  }
  REQUIRE(verify_all_reduce(programs).ok());
  Lane& lane = programs[2].lanes[0];
  lane.scratch_blocks = 1;
  lane.steps[1] = step({{0, 0}, {1, 0}}, {}, {{Buffer::scratch, 0, 1}}, {});
  lane.steps.push_back(step({}, {{Buffer::scratch, 0, 1}}, {output(0)}, {}));
  lane.steps[2].finish = true;
  CHECK(has(verify_all_reduce(programs), FindingKind::finish));
  lane.steps[1].receives.pop_back();
  lane.steps[2] = step({{1, 0}}, {{Buffer::scratch, 0, 1}}, {output(0)}, {});
  lane.steps[2].finish = true;
  CHECK(has(verify_all_reduce(programs), FindingKind::finish));
  lane.steps[1].local = {input(0)};
  const Report report = verify_all_reduce(programs);
  INFO(report.text());
  CHECK(report.findings.size() == 3);
  CHECK(has(report, FindingKind::order));
}

TEST_CASE("verifier: slices pushed but never popped are found", "[schedule][verify]") {
  Programs programs = samples::exchange();
  auto& steps = programs[0].lanes[0].steps;
  steps.push_back(steps[0]);
  steps.back().lend = Lend::never;
  const Report report = verify_all_reduce(programs);
  INFO(report.text());
  CHECK(has(report, FindingKind::links));
}

TEST_CASE("verifier: what does not exist is malformed", "[schedule][verify]") {
  const auto is_malformed = [](auto&& change) {
    Programs programs = samples::ring(3);
    change(programs[1]);
    return has(verify_all_reduce(programs), FindingKind::malformed);
  };
  CHECK(is_malformed([](Program& p) { p.rank = 2; }));
  CHECK(is_malformed([](Program& p) { p.size = 4; }));
  CHECK(is_malformed([](Program& p) { p.blocks = 4; }));
  CHECK(is_malformed([](Program& p) { p.lanes[0].stripe = 1; }));
  CHECK(is_malformed([](Program& p) { p.lanes[0].steps[0].sends[0] = 3; }));
  CHECK(is_malformed([](Program& p) { p.lanes[0].steps[0].sends[0] = 1; }));
  CHECK(is_malformed([](Program& p) { p.lanes[0].steps[1].receives[0].lane = 9; }));
  CHECK(is_malformed([](Program& p) { p.lanes[0].steps[0].local[0].buffer = Buffer::scratch; }));
  CHECK(is_malformed([](Program& p) { p.lanes[0].steps[0].local[0].blocks = UINT32_MAX; }));
  CHECK(is_malformed([](Program& p) { p.lanes[0].steps[2].store[0].buffer = Buffer::input; }));
  CHECK(is_malformed([](Program& p) { p.lanes[0].steps[0].local.clear(); }));

  Problem huge;
  huge.count = UINT64_MAX;
  const Report report = verify(huge, {}, [](Rank) { return Program{}; });
  CHECK(has(report, FindingKind::malformed));
}

TEST_CASE("verifier: each kind's outputs must hold what the kind says", "[schedule][verify]") {
  // Two ranks send their own block (or the root its blocks) and store what arrives.
  const auto check = [](Kind kind, const Programs& programs) {
    Problem problem;
    problem.kind = kind;
    problem.size = 2;
    problem.count = 5;
    return verify(problem, {Algorithm::linear, 1, 2}, [&](Rank rank) { return programs[rank]; });
  };
  Programs gather(2);
  gather[0] = {0, 2, 2, 1, {Lane{}}};
  gather[1] = {1, 2, 2, 1, {Lane{}}};
  gather[0].lanes[0].steps = {step({}, {input(0)}, {output(0)}, {}),
                              step({{1, 0}}, {}, {output(1)}, {})};
  gather[1].lanes[0].steps = {step({}, {input(1)}, {}, {0})};
  INFO(check(Kind::gather, gather).text());
  CHECK(check(Kind::gather, gather).ok());
  CHECK(has(check(Kind::all_gather, gather), FindingKind::result));
  gather[0].lanes[0].steps[1].store = {output(0)};
  CHECK(has(check(Kind::gather, gather), FindingKind::result));

  Programs swap = gather;
  for (Rank rank = 0; rank < 2; ++rank) {
    swap[rank].lanes[0].steps = {step({}, {input(1 - rank)}, {}, {1 - rank}),
                                 step({}, {input(rank)}, {output(rank)}, {}),
                                 step({{1 - rank, 0}}, {}, {output(1 - rank)}, {})};
  }
  CHECK(check(Kind::all_to_all, swap).ok());
  swap[1].lanes[0].steps[0].local = {input(1)};
  CHECK(has(check(Kind::all_to_all, swap), FindingKind::result));

  Programs scatter = gather;
  scatter[0].lanes[0].steps = {step({}, {input(0)}, {output(0)}, {}),
                               step({}, {input(1)}, {}, {1})};
  scatter[1].lanes[0].steps = {step({{0, 0}}, {}, {output(1)}, {})};
  CHECK(check(Kind::scatter, scatter).ok());
  scatter[0].lanes[0].steps[1].local = {input(0)};
  CHECK(has(check(Kind::scatter, scatter), FindingKind::result));
}

TEST_CASE("verifier: two ends that disagree about a slice's size are found", "[schedule][verify]") {
  Problem problem;
  problem.kind = Kind::all_gather;
  problem.size = 2;
  problem.block_counts = {2, 3};
  Programs programs(2);
  for (Rank rank = 0; rank < 2; ++rank) {
    programs[rank] = {rank, 2, 2, 1, {Lane{}}};
    programs[rank].lanes[0].steps = {step({}, {input(rank)}, {output(rank)}, {1 - rank}),
                                     step({{1 - rank, 0}}, {}, {output(1 - rank)}, {})};
  }
  const auto run = [&] {
    return verify(problem, {Algorithm::ring, 1, 4}, [&](Rank rank) { return programs[rank]; });
  };
  CHECK(run().ok());
  programs[0].lanes[0].steps[1].store = {output(0)};
  CHECK(has(run(), FindingKind::sizes));
}

}  // namespace
}  // namespace ccoll
