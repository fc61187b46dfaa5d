// SPDX-License-Identifier: Apache-2.0
#include "engine/plan.hpp"

#include <algorithm>

#include "engine/count_check.hpp"
#include "engine/plan/execute.hpp"
#include "engine/plan/window_places.hpp"
#include "transport/copy_costs.hpp"

namespace ccoll {
namespace {

/// Limits for one lane in one round: other lanes, for which peers may wait, and deadlines need
/// attention too.
constexpr int kStepsAtOnce = 16;
/// All that a link holds: a socket takes it by one system call, and long writes cost it less.
constexpr std::size_t kBytesAtOnce = kLinkSlots * kCommonSliceBytes;
/// Shared by all outgoing links where receivers read lent slices in place: they read together the
/// slices that are lent together. A link has at least kBytesAtOnce.
constexpr std::size_t kLentBytesAtOnce = 1 << 20;

/// Goes on to the lane's next step, or its next window.
void leave(ReadyLane& lane, std::uint64_t stripes) {
  lane.entered = false;
  if (++lane.position < lane.steps.size()) return;
  lane.position = 0;
  lane.window += stripes;
}

}  // namespace

Result<std::unique_ptr<Plan>> Plan::make(const PlanRequest& request, LinkTable& links) {
  auto program = resolve(request, links);
  if (!program) return tl::unexpected(program.error());
  std::unique_ptr<CountCheck> check;
  if (request.count_check) {
    auto made = CountCheck::make(*request.count_check, request.problem.size, links);
    if (!made) return tl::unexpected(made.error());
    check = std::move(*made);
  }
  return std::unique_ptr<Plan>(new Plan(request, std::move(*program), std::move(check)));
}

Plan::Plan(const PlanRequest& request, ReadyProgram program, std::unique_ptr<CountCheck> check)
    : algorithm_(request.choice.algorithm),
      lanes_(std::move(program.lanes)),
      incoming_(std::move(program.incoming)),
      layout_(request),
      combiner_(request.type, request.op, program.most_sources),
      situation_{.reduces = reduces(request.problem.kind),
                 .sends = !program.outgoing.empty(),
                 .receives = !incoming_.empty(),
                 .oversubscribed = request.oversubscribed,
                 .ranks = request.problem.size,
                 .cached_bytes = request.cached_bytes},
      executor_(layout_, std::move(program.outgoing)),
      reporter_(request.program.rank),
      count_check_(std::move(check)),
      can_be_short_(!combiner_.folds() && make_short(lanes_, layout_) && !count_check_) {
  set_copying();
}

Plan::~Plan() = default;

void Plan::set_copying() {
  const auto elem_bytes = layout_.elem_bytes();
  situation_.input_bytes = layout_.bytes_of(Buffer::input);
  situation_.output_bytes = layout_.bytes_of(Buffer::output);
  situation_.slice_bytes = std::min(layout_.longest(), layout_.slice_elems()) * elem_bytes;
  situation_.call_bytes = layout_.has_private_sizes() ? 0 : layout_.problem().count * elem_bytes;
  const auto costs = known_copy_costs();
  copying_.set(situation_, costs.get());
}

void Plan::start(const PlanRun& run) {
  run_ = &run;
  if (!run.block_counts.empty() && !layout_.has_sizes_of(run)) [[unlikely]] {
    traffic_.settle(lanes_, layout_);
    layout_.take_sizes_of(run);
    set_copying();
  }
  done_ = rests_ = false;
  executor_.begin_run();
  limit_ = std::min(layout_.windows(), run.open_windows);
  const bool brief = can_be_short_ && run.input.segments.empty() && run.output.segments.empty();
  mode_ = brief ? Mode::brief : Mode::interpreted;
  bytes_at_once_ = kBytesAtOnce;
  const bool has_gaps = has_rows(run.input) || has_rows(run.output);
  copying_.begin(executor_.outgoing(), incoming_, run.in_place,
                 limit_ == layout_.windows() && !has_gaps);
  if (has_gaps) combiner_.prepare_rows();
  if (copying_.lends_much_at_once())
    bytes_at_once_ = std::max(kBytesAtOnce, kLentBytesAtOnce / executor_.outgoing().size());
  for (auto& lane : lanes_) {
    lane.window = lane.stripe;
    lane.position = 0;
    lane.entered = false;
  }
  if (count_check_)
    count_check_->start(run, layout_.rank(), layout_.problem().block_counts,
                        layout_.problem().output_counts);
  if (reporter_.has_observer()) [[unlikely]] {
    if (mode_ == Mode::brief) mode_ = Mode::brief_observed;
    reporter_.begin(run, layout_.problem(), lanes_);
  }
}

Result<bool> Plan::advance() {
  if (done_) return false;
  const auto polled = mode_ == Mode::brief ? poll_short<false>() : poll_any();
  if (polled == Polled::failed) return tl::unexpected(take_failure());
  return polled != Polled::waits;
}

Polled Plan::poll_any() {
  if (done_) return Polled::done;
  if (mode_ == Mode::brief_observed) return poll_short<true>();
  bool moved = false, finished = true;
  limit_ = std::min(layout_.windows(), run_->open_windows);
  for (auto& lane : lanes_) {
    const auto advanced = advance_lane(lane);
    if (advanced == Polled::failed) return advanced;
    moved |= advanced == Polled::moved;
    finished &= lane.window >= limit_;
  }
  if (count_check_) {
    const auto checked = advance_check();
    if (checked == Polled::failed) return checked;
    moved |= checked == Polled::moved;
    finished &= count_check_->done();
  }
  const auto flushed = executor_.flush();
  if (flushed == Polled::failed) return flushed;
  moved |= flushed == Polled::moved;
  const bool is_over = finished && !executor_.owes();
  rests_ = is_over && limit_ != layout_.windows();
  if (!is_over || rests_) return moved ? Polled::moved : Polled::waits;
  end_run();
  if (reporter_.has_observer()) reporter_.end();
  return Polled::done;
}

Polled Plan::advance_check() {
  auto moved = count_check_->advance();
  if (!moved) return executor_.failed(std::move(moved.error()));
  return *moved ? Polled::moved : Polled::waits;
}

Polled Plan::advance_lane(ReadyLane& lane) {
  auto outcome = Polled::waits;
  std::size_t bytes = 0;
  const auto context = this->context();
  for (int steps = 0; lane.window < limit_ && steps < kStepsAtOnce && bytes < bytes_at_once_;
       steps++) {
    if (lane.steps.empty()) {
      lane.window = layout_.windows();
      break;
    }
    if (!lane.entered) enter(lane, layout_, *run_);
    if (!after_holds(lanes_, lane)) {
      if (lane.data.has_slice) lane.lacked = ReadyLane::kStep;
      break;
    }
    if (lane.data.has_slice) {
      WindowPlaces places(context, layout_, lane);
      const auto ran = executor_.execute(places);
      if (ran == Polled::failed) return ran;
      if (ran == Polled::waits) break;
      bytes += lane.data.bytes;
    }
    leave(lane, layout_.stripes());
    outcome = Polled::moved;
  }
  return outcome;
}

const std::optional<MadeCall>& Plan::different() const {
  const bool is_checks = count_check_ && count_check_->plan().different();
  return is_checks ? count_check_->plan().different() : executor_.different();
}

bool Plan::counts_differ() const { return count_check_ && count_check_->found(); }

}  // namespace ccoll
