// SPDX-License-Identifier: Apache-2.0
#include "verify/verify.hpp"

#include <algorithm>

#include "verify/dataflow.hpp"
#include "verify/execute.hpp"
#include "verify/races.hpp"
#include "verify/resolve.hpp"

namespace ccoll {
namespace {

using detail::Execution;
using detail::Findings;
using detail::LinkState;
using detail::Resolved;

/// Pushes and pops of every link in one call if every step runs.
std::vector<LinkState> count_slices(const Resolved& schedule) {
  std::vector<LinkState> links(schedule.links.size());
  for (std::uint32_t number = 0; number < schedule.lanes.size(); ++number) {
    const detail::ResolvedLane& lane = schedule.lanes[number];
    for (std::uint32_t i = lane.steps.begin; i < lane.steps.end; ++i) {
      const detail::ResolvedStep& step = schedule.steps[i];
      std::uint64_t times = 0;
      for (std::uint64_t w = lane.stripe; w < schedule.windows; w += schedule.stripes) {
        times += schedule.active(step, static_cast<std::uint32_t>(w)) ? 1 : 0;
      }
      for (const std::uint32_t link : schedule.links_of(step.receives)) links[link].popped += times;
      for (const std::uint32_t link : schedule.links_of(step.sends)) links[link].pushed += times;
    }
  }
  return links;
}

/// Runs with ever more slots until it ends. `slots` is then the smallest number with which it does.
/// If a link has a slot for every slice of all calls, more make no difference.
Execution find_slots(const Resolved& schedule, const std::vector<LinkState>& links,
                     std::uint32_t calls, std::uint64_t& slots) {
  std::uint64_t enough = 1;
  for (const LinkState& link : links) enough = std::max(enough, link.pushed * calls);
  slots = 1;
  Execution run = execute(schedule, slots, calls);
  std::uint64_t too_few = 0;
  while (!run.finished && slots < enough) {
    too_few = slots;
    slots = std::min(slots * 2, enough);
    run = execute(schedule, slots, calls);
  }
  while (run.finished && slots - too_few > 1) {
    const std::uint64_t middle = too_few + (slots - too_few) / 2;
    Execution fewer = execute(schedule, middle, calls);
    if (fewer.finished) {
      slots = middle;
      run = std::move(fewer);
    } else {
      too_few = middle;
    }
  }
  return run;
}

/// The text of how many messages each end of a link sends or takes in a call.
std::string mismatch_text(const Resolved& schedule, const detail::ResolvedLink& link,
                          const LinkState& state) {
  const detail::ResolvedLane& from = schedule.lanes[link.from_lane];
  const auto messages = [](std::uint64_t count) {
    return fmt::format("{} message{}", count, count == 1 ? "" : "s");
  };
  if (state.pushed < state.popped)
    return fmt::format("rank {} waits for {} of rank {} lane {}, which sends {} in one call",
                       link.to, messages(state.popped), from.rank, from.number, state.pushed);
  return fmt::format("rank {} lane {} sends {} to rank {}, which takes {} in one call", from.rank,
                     from.number, messages(state.pushed), link.to, state.popped);
}

void check_links(const Resolved& schedule, const std::vector<LinkState>& links,
                 Findings& findings) {
  for (std::uint32_t link = 0; link < links.size(); ++link) {
    if (links[link].pushed == links[link].popped) continue;
    findings.add(FindingKind::links, "{}",
                 mismatch_text(schedule, schedule.links[link], links[link]));
  }
}

void check(const Resolved& schedule, const VerifyOptions& options, Findings& findings,
           Report& report) {
  report.windows = schedule.windows;
  const std::vector<LinkState> links = count_slices(schedule);
  check_links(schedule, links, findings);
  std::uint64_t slots = 0;
  const Execution run = find_slots(schedule, links, std::max(options.calls, 1U), slots);
  if (!run.finished) {
    findings.add(FindingKind::deadlock, "deadlock: {}", describe_deadlock(schedule, run));
    return;
  }
  report.slots_needed = static_cast<std::uint32_t>(slots);
  check_dataflow(schedule, run, slots, findings, report);
  if (!findings.full()) check_races(schedule, run, slots, findings);
}

}  // namespace

std::string_view to_string(FindingKind kind) {
  switch (kind) {
    case FindingKind::malformed:
      return "malformed";
    case FindingKind::links:
      return "links";
    case FindingKind::deadlock:
      return "deadlock";
    case FindingKind::sizes:
      return "sizes";
    case FindingKind::undefined:
      return "undefined";
    case FindingKind::result:
      return "result";
    case FindingKind::finish:
      return "finish";
    case FindingKind::order:
      return "order";
    case FindingKind::race:
      return "race";
    case FindingKind::in_place:
      return "in_place";
  }
  return "unknown";
}

std::string Report::text() const {
  std::string text;
  for (const Finding& finding : findings) {
    text += fmt::format("{}: {}\n", to_string(finding.kind), finding.message);
  }
  return text;
}

Report verify(const Problem& problem, const Choice& choice, const Schedule& schedule,
              const VerifyOptions& options) {
  Report report;
  Findings findings(std::max<std::size_t>(options.max_findings, 1));
  if (const auto resolved = detail::resolve(problem, choice, schedule, findings)) {
    check(*resolved, options, findings, report);
  }
  report.findings = findings.take();
  return report;
}

std::vector<VerifyCase> verify_cases(Kind kind, Algorithm algorithm, Rank size, Rank root,
                                     std::uint32_t blocks) {
  const bool whole = kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::broadcast;
  std::vector<VerifyCase> cases;
  const auto add = [&](std::string_view name, std::uint64_t count, std::uint16_t lanes,
                       std::uint64_t slice_elems) -> Problem& {
    VerifyCase& added = cases.emplace_back();
    added.name = name;
    added.problem.kind = kind;
    added.problem.size = size;
    added.problem.root = root;
    added.problem.count = count;
    added.choice = {algorithm, lanes, slice_elems};
    return added.problem;
  };
  if (kind == Kind::barrier) {
    add("barrier", 1, 1, 1);
    return cases;
  }
  // If the whole buffer is divided, only the first block has a third window.
  const auto elems = [&](std::uint64_t of_block) {
    return whole ? (of_block - 1) * blocks + 1 : of_block;
  };
  add("three windows, the last uneven", elems(7), 1, 3);
  add("three windows over two copies of the lanes", elems(5), 2, 2);
  add("no elements", 0, 1, 4);
  add("one element", 1, 1, 4);
  if (size > 2) add("one element less than ranks", size - 1, 1, 4);
  const bool matrix = kind == Kind::all_to_all;
  if (matrix || kind == Kind::all_gather || kind == Kind::reduce_scatter || kind == Kind::gather ||
      kind == Kind::scatter) {
    Problem& problem = add("ragged blocks, some empty", 0, 1, 2);
    const std::uint64_t sizes = std::uint64_t{size} * (matrix ? size : 1);
    // The term i / size makes the rows of a matrix differ from its columns.
    for (std::uint64_t i = 0; i < sizes; ++i) {
      problem.block_counts.push_back((i * 5 + i / size * 3 + 3) % 4);
    }
  }
  return cases;
}

}  // namespace ccoll
