// SPDX-License-Identifier: Apache-2.0
#include "verify/replay.hpp"

#include "verify/dataflow.hpp"
#include "verify/races.hpp"

namespace ccoll {
namespace {

using namespace detail;

/// Follows the records, with the state of each lane and link.
class Follower {
 public:
  Follower(const Resolved& schedule, std::uint64_t slots, Findings& findings)
      : schedule_(schedule),
        slots_(slots),
        findings_(findings),
        lanes_(schedule.lanes.size()),
        links_(schedule.links.size()) {
    for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) {
      lanes_[lane].window = schedule.lanes[lane].stripe;
      skip_inactive(lane);
    }
  }

  bool follow(const StepRecord& record, Execution& execution) {
    const auto& begin = schedule_.lanes_begin;
    if (record.rank + 1 >= begin.size() ||
        begin[record.rank] + record.lane >= begin[record.rank + 1]) {
      findings_.add(FindingKind::malformed, "rank {} has no lane {}", record.rank, record.lane);
      return false;
    }
    const std::uint32_t lane = begin[record.rank] + record.lane;
    LaneState& state = lanes_[lane];
    if (record.step != state.step || record.window != state.window) {
      findings_.add(FindingKind::order, "{} window {} ran, step {} window {} was next",
                    schedule_.place(lane, record.step), record.window, state.step, state.window);
      return false;
    }
    const ResolvedStep& step = schedule_.step(lane, record.step);
    if (!may_run(lane, step)) return false;
    for (const std::uint32_t link : schedule_.links_of(step.receives)) ++links_[link].popped;
    for (const std::uint32_t link : schedule_.links_of(step.sends)) ++links_[link].pushed;
    execution.trace.push_back({lane, record.step, static_cast<std::uint32_t>(record.window)});
    advance(lane);
    skip_inactive(lane);
    return true;
  }

  void check_complete() {
    for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) {
      if (lanes_[lane].window < schedule_.windows)
        findings_.add(FindingKind::links, "{} window {} did not run",
                      schedule_.place(lane, lanes_[lane].step), lanes_[lane].window);
    }
  }

 private:
  bool may_run(std::uint32_t lane, const ResolvedStep& step) {
    const LaneState& state = lanes_[lane];
    if (step.after_lane != kNone) {
      const LaneState& other = lanes_[step.after_lane];
      if (other.window < state.window ||
          (other.window == state.window && other.step <= step.after_step)) {
        findings_.add(FindingKind::order, "{} ran before {}", schedule_.place(lane, state.step),
                      schedule_.place(step.after_lane, step.after_step));
        return false;
      }
    }
    for (const std::uint32_t link : schedule_.links_of(step.receives)) {
      if (links_[link].popped < links_[link].pushed) continue;
      findings_.add(FindingKind::links, "{} popped {} while it was empty",
                    schedule_.place(lane, state.step), schedule_.link_name(link));
      return false;
    }
    for (const std::uint32_t link : schedule_.links_of(step.sends)) {
      if (links_[link].pushed - links_[link].popped < slots_) continue;
      findings_.add(FindingKind::links, "{} pushed to {} while it was full",
                    schedule_.place(lane, state.step), schedule_.link_name(link));
      return false;
    }
    return true;
  }

  void advance(std::uint32_t lane) {
    LaneState& state = lanes_[lane];
    const Range steps = schedule_.lanes[lane].steps;
    if (++state.step < steps.end - steps.begin) return;
    state.step = 0;
    state.window += schedule_.stripes;
  }

  void skip_inactive(std::uint32_t lane) {
    const Range steps = schedule_.lanes[lane].steps;
    LaneState& state = lanes_[lane];
    if (steps.begin == steps.end) state.window = schedule_.windows;
    while (state.window < schedule_.windows &&
           !schedule_.active(schedule_.step(lane, state.step),
                             static_cast<std::uint32_t>(state.window)))
      advance(lane);
  }

  const Resolved& schedule_;
  const std::uint64_t slots_;
  Findings& findings_;
  std::vector<LaneState> lanes_;
  std::vector<LinkState> links_;
};

}  // namespace

Report replay(const Problem& problem, const Choice& choice, const Schedule& schedule,
              std::span<const StepRecord> records, std::uint64_t slots) {
  Report report;
  Findings findings(VerifyOptions{}.max_findings);
  if (const auto resolved = resolve(problem, choice, schedule, findings)) {
    Execution execution;
    execution.finished = true;
    Follower follower(*resolved, slots, findings);
    bool good = true;
    for (const StepRecord& record : records) good = good && follower.follow(record, execution);
    if (good) follower.check_complete();
    if (findings.empty()) check_dataflow(*resolved, execution, slots, findings, report);
    if (findings.empty()) check_races(*resolved, execution, slots, findings);
  }
  report.findings = findings.take();
  return report;
}

}  // namespace ccoll
