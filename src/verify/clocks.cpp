// SPDX-License-Identifier: Apache-2.0
#include "verify/clocks.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <type_traits>

namespace ccoll::detail {
namespace {

/// One clock per run. The lane shares it with the messages and afters that carry it, and it is
/// reused when the last of them is gone: copies would cost as much as comparing.
/// Tick has 16 bits where they suffice, because most time goes into comparing ticks.
template <typename Tick>
class Clocks {
 public:
  Clocks(const Resolved& schedule, const Execution& execution, std::uint64_t slots)
      : schedule_(schedule),
        trace_(execution.trace),
        slots_(slots),
        component_of_(schedule.lanes.size()),
        current_(schedule.lanes.size(), kNone),
        queues_(schedule.links.size() * slots),
        links_(schedule.links.size()),
        target_clocks_(std::size_t{schedule.targets} * schedule.windows, kNone) {
    number_components();
    count_ticks();
  }

  std::vector<std::size_t> answer(const std::vector<OrderQuery>& queries) {
    std::vector<std::size_t> failed;
    std::size_t next = 0;
    for (std::uint32_t run = 0; next < queries.size(); ++run) {
      advance(run);
      for (; next < queries.size() && queries[next].later == run; ++next) {
        if (!is_before(queries[next].before, run)) failed.push_back(next);
      }
    }
    return failed;
  }

 private:
  /// Lanes of different stripes never meet: no message or `after` goes between them, and they share
  /// no range. So each stripe numbers its own lanes.
  void number_components() {
    std::vector<std::size_t> used(schedule_.stripes, 0);
    for (std::size_t lane = 0; lane < component_of_.size(); ++lane) {
      component_of_[lane] = used[schedule_.lanes[lane].stripe]++;
      components_ = std::max(components_, component_of_[lane] + 1);
    }
  }

  void count_ticks() {
    ticks_.reserve(trace_.size());
    std::vector<Tick> next(schedule_.lanes.size(), 0);
    for (const StepRun& at : trace_) ticks_.push_back(++next[at.lane]);
  }

  bool is_before(std::uint32_t before, std::uint32_t run) const {
    if (before == kNone) return false;
    return clock(current_[trace_[run].lane])[component_of_[trace_[before].lane]] >= ticks_[before];
  }

  void advance(std::uint32_t run) {
    const StepRun& at = trace_[run];
    const ResolvedStep& step = schedule_.step(at.lane, at.step);
    const bool active = schedule_.active(step, at.window);
    make_own(at.lane);
    Tick* const own = clock(current_[at.lane]);
    own[component_of_[at.lane]] = ticks_[run];
    if (step.after_lane != kNone) {
      // Several steps may come after one target, so its clock stays until the end.
      const std::uint32_t target = schedule_.step(step.after_lane, step.after_step).target;
      merge(own, clock(target_clocks_[target * std::size_t{schedule_.windows} + at.window]));
    }
    if (active) {
      for (const std::uint32_t link : schedule_.links_of(step.receives)) {
        const std::uint32_t carried = queues_[link * slots_ + links_[link].popped++ % slots_];
        merge(own, clock(carried));
        release(carried);
      }
      for (const std::uint32_t link : schedule_.links_of(step.sends)) {
        queues_[link * slots_ + links_[link].pushed++ % slots_] = shared(current_[at.lane]);
      }
    }
    if (step.target != kNone) {
      target_clocks_[step.target * std::size_t{schedule_.windows} + at.window] =
          shared(current_[at.lane]);
    }
  }

  /// Gives the lane a clock that nothing else refers to.
  void make_own(std::uint32_t lane) {
    const std::uint32_t old = current_[lane];
    if (old != kNone && users_[old] == 1) return;
    current_[lane] = take();
    if (old == kNone) {
      std::fill_n(clock(current_[lane]), components_, Tick{0});
    } else {
      std::copy_n(clock(old), components_, clock(current_[lane]));
      release(old);
    }
  }

  void merge(Tick* into, const Tick* from) const {
    for (std::size_t i = 0; i < components_; ++i) into[i] = std::max(into[i], from[i]);
  }

  std::uint32_t take() {
    if (free_.empty()) {
      storage_.push_back(std::make_unique_for_overwrite<Tick[]>(components_));
      users_.push_back(0);
      free_.push_back(static_cast<std::uint32_t>(storage_.size() - 1));
    }
    const std::uint32_t taken = free_.back();
    free_.pop_back();
    users_[taken] = 1;
    return taken;
  }

  std::uint32_t shared(std::uint32_t number) {
    ++users_[number];
    return number;
  }

  void release(std::uint32_t number) {
    if (--users_[number] == 0) free_.push_back(number);
  }

  Tick* clock(std::uint32_t number) const { return storage_[number].get(); }

  const Resolved& schedule_;
  const std::vector<StepRun>& trace_;
  const std::uint64_t slots_;
  std::size_t components_ = 0;
  std::vector<std::size_t> component_of_;  ///< by lane
  std::vector<Tick> ticks_;                ///< by run: its number within its lane, from 1
  std::vector<std::uint32_t> current_;     ///< by lane: its clock
  std::vector<std::uint32_t> queues_;      ///< `slots_` clocks for each link
  std::vector<LinkState> links_;
  std::vector<std::uint32_t> target_clocks_;  ///< by target and window
  std::vector<std::unique_ptr<Tick[]>> storage_;
  std::vector<std::uint32_t> users_;
  std::vector<std::uint32_t> free_;
};

}  // namespace

std::vector<std::size_t> unordered_queries(const Resolved& schedule, const Execution& execution,
                                           std::uint64_t slots,
                                           const std::vector<OrderQuery>& queries) {
  std::uint64_t most = 0;
  for (const ResolvedLane& lane : schedule.lanes) {
    most = std::max<std::uint64_t>(most, lane.steps.end - lane.steps.begin);
  }
  if (most * schedule.windows <= std::numeric_limits<std::int16_t>::max()) {
    return Clocks<std::int16_t>(schedule, execution, slots).answer(queries);
  }
  return Clocks<std::uint64_t>(schedule, execution, slots).answer(queries);
}

}  // namespace ccoll::detail
