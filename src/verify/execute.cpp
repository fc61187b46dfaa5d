// SPDX-License-Identifier: Apache-2.0
#include "verify/execute.hpp"

#include <algorithm>

namespace ccoll::detail {
namespace {

class Executor {
 public:
  Executor(const Resolved& schedule, std::uint64_t slots, std::uint32_t calls)
      : schedule_(schedule), slots_(slots), calls_(calls) {
    run_.lanes.resize(schedule.lanes.size());
    run_.links.resize(schedule.links.size());
    lanes_left_.resize(schedule.problem.size);
    for (Rank rank = 0; rank < schedule.problem.size; ++rank) begin_call(rank, 0);
  }

  Execution run() {
    while (!ready_.empty()) {
      const std::uint32_t lane = ready_.back();
      ready_.pop_back();
      run_.lanes[lane].queued = false;
      advance(lane);
    }
    run_.finished = ranks_done_ == schedule_.problem.size;
    return std::move(run_);
  }

 private:
  void begin_call(Rank rank, std::uint32_t call) {
    const std::uint32_t begin = schedule_.lanes_begin[rank];
    const std::uint32_t end = schedule_.lanes_begin[rank + 1];
    lanes_left_[rank] = end - begin;
    if (begin == end) ++ranks_done_;
    for (std::uint32_t lane = begin; lane < end; ++lane) {
      run_.lanes[lane] = {};
      run_.lanes[lane].window = schedule_.lanes[lane].stripe;
      run_.lanes[lane].call = call;
      enqueue(lane);
    }
  }

  void enqueue(std::uint32_t lane) {
    if (run_.lanes[lane].queued) return;
    run_.lanes[lane].queued = true;
    ready_.push_back(lane);
  }

  void advance(std::uint32_t lane) {
    LaneState& state = run_.lanes[lane];
    const Range steps = schedule_.lanes[lane].steps;
    state.waiting = {};
    if (steps.begin == steps.end) state.window = schedule_.windows;
    while (state.window < schedule_.windows) {
      if (!run_step(lane, state)) return;
      state.checked = 0;
      if (++state.step == steps.end - steps.begin) {
        state.step = 0;
        state.window += schedule_.stripes;
      }
      wake_dependents(lane);
    }
    end_lane(lane);
  }

  void end_lane(std::uint32_t lane) {
    const Rank rank = schedule_.lanes[lane].rank;
    if (--lanes_left_[rank] != 0) return;
    const std::uint32_t call = run_.lanes[lane].call + 1;
    if (call < calls_) {
      begin_call(rank, call);
    } else {
      ++ranks_done_;
    }
  }

  /// False if the lane must wait; the event that it waits for then wakes it.
  bool run_step(std::uint32_t lane, LaneState& state) {
    const ResolvedStep& step = schedule_.step(lane, state.step);
    if (step.after_lane != kNone && !has_passed(step, state)) {
      state.waiting = {Waiting::For::after, kNone};
      return false;
    }
    if (schedule_.active(step, static_cast<std::uint32_t>(state.window))) {
      if (!is_ready(step, state)) return false;
      move_slices(step);
    }
    if (state.call == 0) {
      run_.trace.push_back({lane, state.step, static_cast<std::uint32_t>(state.window)});
    }
    return true;
  }

  bool has_passed(const ResolvedStep& step, const LaneState& state) const {
    const LaneState& other = run_.lanes[step.after_lane];
    return other.window > state.window ||
           (other.window == state.window && other.step > step.after_step);
  }

  /// A ready link stays ready until this lane moves, so `checked` only grows.
  bool is_ready(const ResolvedStep& step, LaneState& state) const {
    const auto receives = schedule_.links_of(step.receives);
    const auto sends = schedule_.links_of(step.sends);
    for (; state.checked < receives.size(); ++state.checked) {
      const LinkState& link = run_.links[receives[state.checked]];
      if (link.pushed == link.popped) {
        state.waiting = {Waiting::For::slice, receives[state.checked]};
        return false;
      }
    }
    for (; state.checked < receives.size() + sends.size(); ++state.checked) {
      const std::uint32_t number = sends[state.checked - receives.size()];
      const LinkState& link = run_.links[number];
      if (link.pushed - link.popped >= slots_) {
        state.waiting = {Waiting::For::room, number};
        return false;
      }
    }
    return true;
  }

  void move_slices(const ResolvedStep& step) {
    for (const std::uint32_t link : schedule_.links_of(step.receives)) {
      ++run_.links[link].popped;
      const std::uint32_t from = schedule_.links[link].from_lane;
      if (run_.lanes[from].waiting.link == link) enqueue(from);
    }
    for (const std::uint32_t link : schedule_.links_of(step.sends)) {
      ++run_.links[link].pushed;
      const std::uint32_t to = schedule_.links[link].to_lane;
      if (to != kNone && run_.lanes[to].waiting.link == link) enqueue(to);
    }
  }

  void wake_dependents(std::uint32_t lane) {
    const Rank rank = schedule_.lanes[lane].rank;
    for (std::uint32_t other = schedule_.lanes_begin[rank]; other < schedule_.lanes_begin[rank + 1];
         ++other) {
      if (run_.lanes[other].waiting.what == Waiting::For::after) enqueue(other);
    }
  }

  const Resolved& schedule_;
  const std::uint64_t slots_;
  const std::uint32_t calls_;
  Execution run_;
  std::vector<std::uint32_t> ready_;
  std::vector<std::uint32_t> lanes_left_;  ///< by rank, in its current call
  Rank ranks_done_ = 0;
};

/// The lane that `lane` waits for, or none.
std::uint32_t awaited(const Resolved& schedule, const Execution& execution, std::uint32_t lane) {
  const LaneState& state = execution.lanes[lane];
  switch (state.waiting.what) {
    case Waiting::For::slice:
      return schedule.links[state.waiting.link].from_lane;
    case Waiting::For::room:
      return schedule.links[state.waiting.link].to_lane;
    case Waiting::For::after:
      return schedule.step(lane, state.step).after_lane;
    case Waiting::For::nothing:
      break;
  }
  return kNone;
}

std::string describe_wait(const Resolved& schedule, const Execution& execution,
                          std::uint32_t lane) {
  const LaneState& state = execution.lanes[lane];
  const std::string place =
      schedule.place(lane, state.step, static_cast<std::uint32_t>(state.window));
  switch (state.waiting.what) {
    case Waiting::For::slice:
      return fmt::format("{} waits for a slice from {}", place,
                         schedule.link_name(state.waiting.link));
    case Waiting::For::room:
      return fmt::format("{} waits for room from {}", place,
                         schedule.link_name(state.waiting.link));
    case Waiting::For::after: {
      const ResolvedStep& step = schedule.step(lane, state.step);
      return fmt::format("{} waits for {}", place,
                         schedule.place(step.after_lane, step.after_step));
    }
    case Waiting::For::nothing:
      break;
  }
  return fmt::format("rank {} lane {} has ended", schedule.lanes[lane].rank,
                     schedule.lanes[lane].number);
}

}  // namespace

Execution execute(const Resolved& schedule, std::uint64_t slots, std::uint32_t calls) {
  return Executor(schedule, slots, calls).run();
}

Deadlock find_deadlock(const Resolved& schedule, const Execution& execution) {
  std::uint32_t lane = 0;
  while (lane < execution.lanes.size() &&
         execution.lanes[lane].waiting.what == Waiting::For::nothing) {
    ++lane;
  }
  if (lane == execution.lanes.size()) return {};
  Deadlock found;
  std::vector<std::uint32_t>& chain = found.lanes;
  while (lane != kNone && std::find(chain.begin(), chain.end(), lane) == chain.end()) {
    chain.push_back(lane);
    lane = awaited(schedule, execution, lane);
  }
  found.is_cycle = lane != kNone;
  if (found.is_cycle) chain.erase(chain.begin(), std::find(chain.begin(), chain.end(), lane));
  return found;
}

std::string describe_deadlock(const Resolved& schedule, const Execution& execution) {
  const Deadlock found = find_deadlock(schedule, execution);
  if (found.lanes.empty()) return "no lane waits, yet not all have ended";
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < found.lanes.size(); ++i) {
    if (i == kShown) {
      text += fmt::format("; and {} more", found.lanes.size() - i);
      break;
    }
    if (i != 0) text += "; ";
    text += describe_wait(schedule, execution, found.lanes[i]);
  }
  if (found.is_cycle) text += fmt::format("; and so on, a cycle of {}", found.lanes.size());
  return text;
}

}  // namespace ccoll::detail
