// SPDX-License-Identifier: Apache-2.0
#include "engine/plan.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <tuple>

#include "engine/count_check.hpp"
#include "engine/describe.hpp"

namespace ccoll {
namespace {

/// Limits for one lane in one round: other lanes, for which peers may wait, and deadlines need
/// attention too.
constexpr int kStepsAtOnce = 16;
constexpr std::size_t kBytesAtOnce = 256 << 10;
/// The limit over all outgoing links when receivers read lent slices in place: they read together
/// the slices that are lent together.
constexpr std::size_t kLentBytesAtOnce = 1 << 20;

/// In an all_to_all_v of up to so many ranks, all send each other word that they have nothing.
constexpr Rank kMostTold = 64;

}  // namespace

bool tells_empty_blocks(const Problem& problem) {
  return sizes_are_private(problem) &&
         (problem.kind != Kind::all_to_all || problem.size <= kMostTold);
}

Plan::Plan() = default;
Plan::~Plan() = default;

Result<std::unique_ptr<Plan>> Plan::make(const PlanRequest& request, LinkTable& links) {
  std::unique_ptr<Plan> plan(new Plan);
  CCOLL_TRY(plan->resolve(request, links));
  return plan;
}

Status Plan::resolve(const PlanRequest& request, LinkTable& links) {
  const auto& program = request.program;
  problem_ = request.problem;
  problem_.host_of.clear();  // needed only to make the program
  blocks_ = program.blocks;
  algorithm_ = request.choice.algorithm;
  rank_ = program.rank;
  has_private_sizes_ = sizes_are_private(problem_);
  tells_empty_blocks_ = tells_empty_blocks(problem_);
  elem_bytes_ = size_of(request.type);
  cached_bytes_ = request.cached_bytes;
  oversubscribed_ = request.oversubscribed;
  slice_elems_ = request.choice.slice_elems;
  stripes_ = program.stripes;
  if (request.op)
    combine_ = find_combine(request.type, *request.op);
  else
    custom_fold_ = std::make_unique<CustomFold>(request.type, elem_bytes_);
  std::size_t widest = 1;
  for (std::size_t i = 0; i < program.lanes.size(); i++) {
    const auto& lane = program.lanes[i];
    auto& ready = lanes_.emplace_back();
    ready.stripe = lane.stripe;
    ready.scratch.resize(lane.scratch_blocks * slice_elems_ * elem_bytes_);
    for (const auto& step : lane.steps) {
      ready.steps.emplace_back();
      CCOLL_TRY(resolve_step(request, lane, static_cast<std::uint16_t>(i), step, links,
                             ready.steps.back()));
      widest = std::max(widest, step.receives.size() + 1);
      lends_results_ |= request.op && ready.steps.back().combines && !step.store.empty() &&
                        step.lend != Lend::never;
    }
  }
  room_.widen(widest);
  find_fillers();
  measure();
  if (request.count_check) {
    auto check = CountCheck::make(*request.count_check, problem_.size, links);
    if (!check) return tl::unexpected(check.error());
    count_check_ = std::move(*check);
  }
  can_be_short_ = make_short() && !count_check_;
  return {};
}

Status Plan::resolve_step(const PlanRequest& request, const Lane& lane, std::uint16_t number,
                          const Step& step, LinkTable& links, ReadyStep& ready) {
  place(request, lane, step.local, ready.local);
  place(request, lane, step.store, ready.store);
  for (const auto& receive : step.receives) {
    auto link =
        links.receiver(receive.peer, static_cast<std::uint16_t>(request.first_lane + receive.lane));
    if (!link) return tl::unexpected(link.error());
    ready.receives.push_back(*link);
    if (std::ranges::find(incoming_, *link) == incoming_.end()) incoming_.push_back(*link);
    ready.from.push_back(receive.peer);
    if (receive.peer < rank_) ready.local_position++;
  }
  for (const auto peer : step.sends) {
    auto link = links.sender(peer, static_cast<std::uint16_t>(request.first_lane + number));
    if (!link) return tl::unexpected(link.error());
    ready.sends.push_back(*link);
    ready.to.push_back(peer);
    const std::pair entry{*link, peer};
    if (std::ranges::find(outgoing_, entry) == outgoing_.end()) outgoing_.push_back(entry);
  }
  ready.after = step.after;
  ready.lend = step.lend;
  if (step.finish && request.op == ReduceOp::avg) ready.divisor = request.problem.size;
  ready.combines = step.receives.size() + (step.local.empty() ? 0 : 1) > 1 || ready.divisor > 1;
  ready.copies_input =
      !ready.combines && step.receives.empty() && !step.store.empty() &&
      std::ranges::all_of(step.local, [](const auto& o) { return o.buffer == Buffer::input; });
  return {};
}

void Plan::find_fillers() {
  // An in-place reduction reads its input where the result goes.
  if (reduces(problem_.kind) || stripes_ != 1) return;
  std::vector<std::uint32_t> stores(blocks_);
  for (const auto& lane : lanes_)
    for (const auto& step : lane.steps)
      for (const auto& part : step.store)
        if (part.buffer == Buffer::output) stores[part.block]++;
  for (auto& lane : lanes_)
    for (auto& step : lane.steps)
      step.fills_block = step.store.size() == 1 && step.store[0].buffer == Buffer::output &&
                         stores[step.store[0].block] == 1;
}

void Plan::measure() {
  windows_ = window_count(problem_, blocks_, {algorithm_, 1, slice_elems_});
  if (tells_empty_blocks_) windows_ = std::max<std::uint64_t>(windows_, 1);
  std::array<std::uint64_t, 2> bytes_of{};
  for (const auto buffer : {Buffer::input, Buffer::output}) {
    auto& extents = extents_.of(buffer);
    const bool one_block = holds_own_block_only(problem_.kind, buffer);
    extents.resize(blocks_);
    std::uint64_t offset = 0;
    for (std::uint32_t block = 0; block < blocks_; block++) {
      const auto elems = block_elems(problem_, blocks_, block, buffer);
      extents[block] = {one_block ? 0 : offset, elems};
      offset += elems;
    }
    const auto whole = one_block ? block_elems(problem_, blocks_, rank_, buffer) : offset;
    bytes_of[buffer == Buffer::output] = has(problem_, rank_, buffer) ? whole * elem_bytes_ : 0;
  }
  const auto [input, output] = bytes_of;
  const auto costs = known_copy_costs();
  const CopySituation situation{
      .reduces = reduces(problem_.kind),
      .sends = !outgoing_.empty(),
      .receives = !incoming_.empty(),
      .lends_results = lends_results_,
      .oversubscribed = oversubscribed_,
      .ranks = problem_.size,
      .input_bytes = input,
      .output_bytes = output,
      .cached_bytes = cached_bytes_,
      .slice_bytes = std::min(extents_.longest(), slice_elems_) * elem_bytes_,
      .call_bytes = has_private_sizes_ ? 0 : problem_.count * elem_bytes_};
  copying_.set(situation, costs.get());
  if (copying_.may_make_aside()) room_.prepare_aside();
}

Windows Plan::windows(const std::vector<std::uint64_t>& block_counts,
                      const std::vector<std::uint64_t>& output_counts) const {
  auto problem = problem_;
  if (!block_counts.empty()) {
    problem.block_counts = block_counts;
    problem.output_counts = output_counts;
  }
  return {std::move(problem), rank_, blocks_, slice_elems_, tells_empty_blocks_ ? 1U : 0U};
}

void Plan::place(const PlanRequest& request, const Lane& lane, const std::vector<Operand>& operands,
                 std::vector<BlockPlace>& parts) const {
  const auto blocks = request.program.blocks;
  for (const auto& operand : operands) {
    for (std::uint32_t i = 0; i < operand.blocks; i++) {
      const auto block = (operand.block + i) % blocks;
      const auto scratch_block = (block + blocks - lane.scratch_block) % blocks;
      parts.push_back({operand.buffer, block, scratch_block * slice_elems_});
    }
  }
}

void Plan::start(const PlanRun& run) {
  run_ = &run;
  if (!run.block_counts.empty() && !has_sizes_of(run)) [[unlikely]]
    begin_with_sizes_of(run);
  done_ = rests_ = false;
  pushed_ = owes_ = false;
  limit_ = std::min(windows_, run.open_windows);
  const bool brief = can_be_short_ && run.input.segments.empty() && run.output.segments.empty();
  mode_ = brief ? Mode::brief : Mode::interpreted;
  bytes_at_once_ = kBytesAtOnce;
  const bool has_gaps = has_rows(run.input) || has_rows(run.output);
  copying_.begin(outgoing_, incoming_, run.in_place, limit_ == windows_ && !has_gaps,
                 run.output.segments.empty() ? run.output.data : nullptr);
  if (has_gaps) room_.prepare_rows();
  if (copying_.lends_much_at_once())
    bytes_at_once_ = std::max(kBytesAtOnce, kLentBytesAtOnce / outgoing_.size());
  for (auto& lane : lanes_) {
    lane.window = lane.stripe;
    lane.position = 0;
    lane.entered = false;
  }
  if (count_check_) count_check_->start(run, rank_, problem_.block_counts, problem_.output_counts);
  if (observer_ != nullptr) [[unlikely]]
    tell_begin();
}

void Plan::begin_with_sizes_of(const PlanRun& run) {
  settle_runs();
  problem_.block_counts = run.block_counts;
  problem_.output_counts = run.output_counts;
  measure();
}

Result<bool> Plan::advance() {
  if (done_) return false;
  if (is_short()) {
    const auto polled = mode_ == Mode::brief ? poll_short<false>() : poll_short<true>();
    if (polled == Polled::failed) return tl::unexpected(take_failure());
    return polled != Polled::waits;
  }
  bool moved = false, finished = true;
  limit_ = std::min(windows_, run_->open_windows);
  for (auto& lane : lanes_) {
    auto lane_moved = advance_lane(lane);
    if (!lane_moved) return lane_moved;
    moved |= *lane_moved;
    finished &= lane.window >= limit_;
  }
  if (count_check_) {
    const auto checked = advance_check();
    if (!checked) return checked;
    moved |= *checked;
    finished &= count_check_->done();
  }
  const auto flushed = flush();
  if (flushed == Polled::failed) return tl::unexpected(take_failure());
  moved |= flushed == Polled::moved;
  const bool is_over = finished && !owes_;
  done_ = is_over && limit_ == windows_;
  rests_ = is_over && !done_;
  if (done_) end_run();
  if (done_ && observer_ != nullptr) observer_->ends();
  return moved || done_;
}

Result<bool> Plan::advance_check() {
  auto moved = count_check_->advance();
  if (!moved) different_ = count_check_->plan().different();
  if (!count_check_->found()) return moved;
  return fail(ErrorKind::mismatch,
              "{} (call {}): a rank sends a number of elements that its receiver does not expect: "
              "their counts for each other differ",
              describe(run_->signature), run_->sequence);
}

Plan::Polled Plan::poll_any() {
  if (mode_ == Mode::brief_observed && !done_) return poll_short<true>();
  auto moved = advance();
  if (!moved) return failed(std::move(moved.error()));
  if (done_) return Polled::done;
  return *moved ? Polled::moved : Polled::waits;
}

Plan::Polled Plan::flush() {
  if (!owes_) return Polled::waits;
  bool moved = false;
  pushed_ = owes_ = false;
  for (auto& [link, peer] : outgoing_) {
    if (link->drained()) continue;
    moved |= link->progress();
    const Failure* const failure = link->failure();
    if (link->drained()) continue;
    // Not before drained(): a peer that has taken everything may have left since.
    if (failure != nullptr) return failed(*failure);
    owes_ = true;
  }
  return moved ? Polled::moved : Polled::waits;
}

Result<bool> Plan::advance_lane(ReadyLane& lane) {
  bool moved = false;
  std::size_t bytes = 0;
  for (int steps = 0; lane.window < limit_ && steps < kStepsAtOnce && bytes < bytes_at_once_;
       steps++) {
    if (lane.steps.empty()) {
      lane.window = windows_;
      break;
    }
    if (!lane.entered) enter(lane);
    if (lane.has_slice) {
      if (flush_before(lane.steps[lane.position]) == Polled::failed)
        return tl::unexpected(take_failure());
      auto ready = can_run(lane);
      if (!ready) return ready;
      if (!*ready) break;
      // Observers know the program, which has no slices without data.
      const bool is_told = observer_ != nullptr && lane.bytes > 0;
      if (is_told) tell_move(lane);
      CCOLL_TRY(run_step(lane));
      if (is_told) tell_run(lane, lane.bytes);
      bytes += lane.bytes;
    } else if (!after_holds(lane, lane.steps[lane.position])) {
      break;
    }
    leave(lane);
    moved = true;
  }
  return moved;
}

void Plan::enter(ReadyLane& lane) {
  const auto& step = lane.steps[lane.position];
  const auto local = locate(lane, step.local, lane.local);
  const auto store = locate(lane, step.store, lane.store);
  lane.bytes = step.local.empty() ? store : local;
  lane.has_slice = lane.bytes > 0 || (tells_empty_blocks_ && lane.window == 0);
  if (has_private_sizes_) lane.block_elems = extent_of(step).elems;
  lane.lends = step.lend == Lend::always || (step.lend == Lend::if_separate && !run_->in_place);
  lane.lends_input = lane.lends && lends_input(step);
  const auto& lendable = lane.lendable(step);
  if (lendable.size() != 1 || lendable[0].has_rows() ||
      (step.store.empty() && !step.receives.empty()))
    lane.lends = lane.lends_input = false;
  lane.entered = true;
}

bool Plan::lends_input(const ReadyStep& step) const {
  return step.copies_input && !step.sends.empty() && !run_->in_place;
}

std::size_t Plan::locate(ReadyLane& lane, const std::vector<BlockPlace>& parts,
                         std::vector<MemoryRange>& pieces) {
  pieces.clear();
  std::size_t total = 0;
  const auto first = lane.window * slice_elems_;
  for (const auto& part : parts) {
    const auto& extent = extents_.of(part);
    if (extent.elems <= first) continue;
    const auto elems = std::min(slice_elems_, extent.elems - first);
    const auto bytes = elems * elem_bytes_;
    total += bytes;
    if (part.buffer == Buffer::scratch) {
      pieces.push_back({lane.scratch.data() + part.scratch_offset * elem_bytes_, bytes});
      continue;
    }
    // Inputs are only read: the verifier proves that nothing is stored there.
    const auto& view = part.buffer == Buffer::input ? run_->input : run_->output;
    const auto at = extent.offset + first;
    if (view.segments.empty())
      pieces.push_back({view.data + at * elem_bytes_, bytes});
    else
      append(view, at, elems, pieces);
  }
  return total;
}

void Plan::append(const BufferView& view, std::uint64_t first, std::uint64_t elems,
                  std::vector<MemoryRange>& pieces) const {
  auto next = std::ranges::upper_bound(view.segments, first, {}, &BufferView::Segment::first);
  while (elems > 0) {
    const auto& segment = *std::prev(next);
    auto here = elems;
    if (next != view.segments.end()) here = std::min(here, next->first - first);
    const auto before = first - segment.first;
    if (segment.row_elems == 0) {
      pieces.push_back({segment.data + before * elem_bytes_, here * elem_bytes_});
    } else {
      const auto row = before / segment.row_elems, column = before % segment.row_elems;
      pieces.push_back({segment.data + (row * segment.stride_elems + column) * elem_bytes_,
                        here * elem_bytes_, segment.row_elems * elem_bytes_,
                        segment.stride_elems * elem_bytes_, column * elem_bytes_});
    }
    first += here;
    elems -= here;
    if (next != view.segments.end()) ++next;
  }
}

void Plan::leave(ReadyLane& lane) {
  lane.entered = false;
  if (++lane.position < lane.steps.size()) return;
  lane.position = 0;
  lane.window += stripes_;
}

bool Plan::after_holds(const ReadyLane& lane, const ReadyStep& step) const {
  if (!step.after) return true;
  const auto& other = lanes_[step.after->lane];
  return other.window > lane.window ||
         (other.window == lane.window && other.position > step.after->step);
}

void Plan::offer(const ReadyLane& lane, const ReadyStep& step) const {
  auto& link = *step.receives[0];
  link.offer(lane.store[0].data, lane.bytes);
  if (!step.fills_block || !run_->output.segments.empty()) return;
  const auto elems = extents_.of(step.store[0]).elems;
  link.offer_beyond((elems - lane.window * slice_elems_) * elem_bytes_ - lane.bytes);
}

Result<bool> Plan::can_run(ReadyLane& lane) {
  const auto& step = lane.steps[lane.position];
  if (!after_holds(lane, step)) {
    lane.lacked = ReadyLane::kStep;
    return false;
  }
  // Not earlier: until then the place may still be in use.
  if (step.receives.size() == 1 && !step.combines && step.local.empty() && lane.store.size() == 1 &&
      !lane.store[0].has_rows())
    offer(lane, step);
  bool ready = true;
  // Check all of them, even if the first is missing, so that all make progress.
  for (std::size_t i = 0; i < step.receives.size(); i++) {
    const auto* view = step.receives[i]->front();
    if (view != nullptr) {
      CCOLL_TRY(check(step, i, view->header, header_of(lane)));
      continue;
    }
    if (const Failure* failure = step.receives[i]->failure()) return tl::unexpected(*failure);
    lane.lacked = static_cast<std::uint32_t>(i);
    ready = false;
  }
  for (std::size_t i = 0; i < step.sends.size(); i++) {
    if (step.sends[i]->has_room()) continue;
    // If the kernel has yet to take its slices, flush() moves them on.
    if (const Failure* failure = step.sends[i]->failure()) return tl::unexpected(*failure);
    lane.lacked = static_cast<std::uint32_t>(step.receives.size() + i);
    ready = false;
  }
  return ready;
}

tl::unexpected<Failure> Plan::mismatch(const ReadyStep& step, std::size_t receive,
                                       const SliceHeader& header, const SliceHeader& expected) {
  const auto& [sequence, signature] = std::tie(run_->sequence, run_->signature);
  const auto peer = step.from[receive];
  different_ = MadeCall{peer, header.sequence, header.signature};
  if (has_private_sizes_) different_->signature.count = signature.count;
  if (header.sequence != sequence || different_->signature != signature)
    return fail(ErrorKind::mismatch, "{}",
                describe_mismatch({rank_, sequence, signature}, *different_));
  const auto elems_of = [&](const SliceHeader& slice) {
    return has_private_sizes_ ? slice.signature.count : slice.bytes / elem_bytes_;
  };
  return fail(
      ErrorKind::mismatch, "{}",
      describe_counts({peer, sequence, signature}, elems_of(header), rank_, elems_of(expected)));
}

}  // namespace ccoll
