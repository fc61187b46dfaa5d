// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A program made ready for this rank's links, and the state of its present run. One call at a time
/// uses it, so repeated calls allocate nothing. For the links' user alone (transport/link.hpp).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/result.hpp"
#include "engine/copy_policy.hpp"
#include "engine/describe.hpp"
#include "engine/links.hpp"
#include "engine/plan/block_layout.hpp"
#include "engine/plan/combiner.hpp"
#include "engine/plan/lanes.hpp"
#include "engine/plan/resolve.hpp"
#include "engine/plan/run_reporter.hpp"
#include "engine/plan/step_context.hpp"
#include "engine/plan/step_executor.hpp"
#include "engine/plan/traffic.hpp"
#include "engine/plan_request.hpp"
#include "engine/plan_standing.hpp"
#include "engine/windows.hpp"
#include "schedule/step_record.hpp"

namespace ccoll {

class CountCheck;

class Plan {
 public:
  using Polled = ccoll::Polled;

  ~Plan();
  /// Opens the links that the program needs.
  static Result<std::unique_ptr<Plan>> make(const PlanRequest& request, LinkTable& links);

  /// Begins a run; `run` must live until done() or a failure.
  void start(const PlanRun& run);
  /// Advances every lane by a bounded number of steps; true if anything moved.
  Result<bool> advance();
  bool done() const { return done_; }
  /// Whether this rank has finished the open windows, its sends included, and there are more
  /// windows.
  bool rests() const { return rests_; }
  /// Whether plan_short.cpp executes the present run.
  bool is_short() const { return mode_ != Mode::interpreted; }
  /// advance() for a caller's polling loop: the result is cheap unless there is a failure.
  Polled poll() {
    if (mode_ == Mode::brief && !done_) [[likely]]
      return poll_short<false>();
    return poll_any();
  }
  /// The failure of a failed poll; call once.
  Failure take_failure() { return executor_.take_failure(); }
  /// After a mismatch: the peer's call, from its slice.
  const std::optional<MadeCall>& different() const;

  /// Reports every run that begins from here on to `observer`.
  void observe(std::unique_ptr<StepObserver> observer) { reporter_.set(std::move(observer)); }
  /// For tests that compare the two executors: lets the interpreter run short calls, too.
  void interpret_only() { can_be_short_ = false; }

  Algorithm algorithm() const { return algorithm_; }
  /// After a failure: whether it only says that some ranks' counts for each other differ.
  bool counts_differ() const;
  /// The windows of runs with these block sizes, where the plan's problem leaves them open.
  Windows windows(const std::vector<std::uint64_t>& block_counts,
                  const std::vector<std::uint64_t>& output_counts) const {
    return layout_.windows_with(block_counts, output_counts);
  }
  /// Where the present run stands.
  PlanStanding standing() const {
    return PlanStanding(
        {lanes_, layout_, executor_.outgoing(), count_check_.get(), limit_, rests_});
  }
  /// Adds what its runs have sent and received so far, failed ones included.
  void add_traffic(TrafficTable& table) const { traffic_.add_to(table, lanes_, layout_, !done_); }

 private:
  enum class Mode : std::uint8_t { interpreted, brief, brief_observed };

  Plan(const PlanRequest& request, ReadyProgram program, std::unique_ptr<CountCheck> check);
  /// The copies' rules depend on the sizes of the blocks.
  void set_copying();
  StepContext context() { return {*run_, combiner_, copying_, reporter_}; }
  void end_run() {
    done_ = true;
    traffic_.add_run();
    copying_.end();
  }

  Polled poll_any();
  Polled advance_lane(ReadyLane& lane);
  /// Advances the check of counts, if there is one.
  Polled advance_check();

  // plan_short.cpp; `observed`: reports to the observer. Runs without one pay nothing.
  template <bool observed>
  Polled poll_short();
  // Each executes the lane's present step, unless it must wait.
  template <bool observed>
  Polled run_short(ReadyLane& lane, const ShortStep& step);
  template <bool observed>
  Polled give(ReadyLane& lane, const ShortStep& step);
  template <bool observed>
  Polled take(ReadyLane& lane, const ShortStep& step);

  const Algorithm algorithm_;
  std::vector<ReadyLane> lanes_;
  const std::vector<ReceiveLink*> incoming_;
  BlockLayout layout_;
  Combiner combiner_;
  CopySituation situation_;
  CopyPolicy copying_;
  StepExecutor executor_;
  RunReporter reporter_;
  RunTraffic traffic_;
  const std::unique_ptr<CountCheck> count_check_;
  bool can_be_short_;

  // The present run:
  const PlanRun* run_ = nullptr;
  bool done_ = true;
  bool rests_ = false;
  Mode mode_ = Mode::interpreted;
  std::uint64_t limit_ = 0;        ///< number of windows open so far
  std::size_t bytes_at_once_ = 0;  ///< of one lane in one round
};

}  // namespace ccoll
