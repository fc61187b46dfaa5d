// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The interpreter of schedules: a program made ready for this rank's links, and the state of its
/// present run. One call at a time uses it, so repeated calls allocate nothing. Requires the
/// communicator's owner flag.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ccoll/types.hpp"
#include "core/result.hpp"
#include "core/signature.hpp"
#include "engine/buffer_view.hpp"
#include "engine/copy_policy.hpp"
#include "engine/custom_fold.hpp"
#include "engine/describe.hpp"
#include "engine/links.hpp"
#include "engine/memory_range.hpp"
#include "engine/plan_lanes.hpp"
#include "engine/windows.hpp"
#include "kernels/combine.hpp"
#include "schedule/schedule.hpp"
#include "schedule/step_record.hpp"

namespace ccoll {

class CountCheck;

/// Whether ranks with nothing for each other send a slice without data. In an all_to_all of many
/// ranks, such slices would cost much more than the few of a sparse exchange.
bool tells_empty_blocks(const Problem& problem);

/// The parameters of a Plan.
struct PlanRequest {
  /// This rank's view. The sizes of ragged blocks may change between runs: programs do not depend
  /// on them.
  Problem problem;
  Choice choice;
  Program program;
  DataType type = DataType::uint8;
  /// Includes a pre-multiplied sum, whose input start() gets multiplied. None: each run brings the
  /// caller's own function.
  std::optional<ReduceOp> op = ReduceOp::sum;
  /// The bytes of this rank's buffers that caches keep. If the buffers are larger, outputs may be
  /// written past the caches.
  std::uint64_t cached_bytes = UINT64_MAX;
  /// The machine has fewer cores than ranks.
  bool oversubscribed = false;
  /// The number of the plan's first lane on the links.
  std::uint16_t first_lane = 0;
  /// If sizes are private and empty blocks are not sent: the program of its CountCheck.
  std::optional<Program> count_check;
};

/// One run of a Plan. It uses the buffers and `custom` until done() or a failure.
struct PlanRun {
  BufferView input;
  BufferView output;
  /// Whether input and output share memory.
  bool in_place = false;
  /// The blocks' sizes, if they differ from those of the plan's problem (see Problem).
  std::vector<std::uint64_t> block_counts;
  std::vector<std::uint64_t> output_counts;
  std::shared_ptr<const Reduction::Custom> custom;
  const void* custom_for = nullptr;  ///< is_folding_for() is true for it in `custom`
  Signature signature;
  std::uint64_t sequence = 0;
  /// Number of windows whose data the buffers have. While the plan rests(), this may grow, and the
  /// buffers may be exchanged for others that hold the remaining windows.
  std::uint64_t open_windows = UINT64_MAX;
};

class Plan {
 public:
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
  enum class Polled : std::uint8_t { waits, moved, done, failed };
  Polled poll() {
    if (mode_ == Mode::brief && !done_) [[likely]]
      return poll_short<false>();
    return poll_any();
  }
  /// The failure of a failed poll; call once.
  Failure take_failure() { return *std::exchange(failure_, std::nullopt); }
  /// After a mismatch: the peer's call, from its slice.
  const std::optional<MadeCall>& different() const { return different_; }

  /// Reports every run that begins from here on to `observer`.
  void observe(std::unique_ptr<StepObserver> observer) { observer_ = std::move(observer); }
  /// For tests that compare the two executors: lets the interpreter run short calls, too.
  void interpret_only() { can_be_short_ = false; }

  Algorithm algorithm() const { return algorithm_; }
  /// After a failure: whether it only says that some ranks' counts for each other differ.
  bool counts_differ() const;
  /// The windows of runs with these block sizes, where the plan's problem leaves them open.
  Windows windows(const std::vector<std::uint64_t>& block_counts,
                  const std::vector<std::uint64_t>& output_counts) const;
  /// The position of the first lane with open windows left; all numbers from 0. None if no lane has
  /// any.
  struct Stand {
    std::size_t lane = 0;
    std::size_t step = 0;
    std::size_t steps = 0;
    std::uint64_t window = 0;
    std::uint64_t windows = 0;
  };
  std::optional<Stand> stand() const;
  /// Grows with every step of the present run: shows whether it moves.
  std::uint64_t steps_taken() const;
  /// The position in words, for messages about a run that does not move: "in step 3 of 8, window 1
  /// of 4".
  std::string standing() const;
  /// The ranks (of the communicator) for which the present run waits. `never_connected`: only those
  /// whose link has never been connected. `in_the_way`: while a step is blocked, only the ranks
  /// that block it, not those that have yet to take earlier sends.
  enum class Which : std::uint8_t { all, never_connected, in_the_way };
  std::vector<Rank> awaited(Which which = Which::all) const;
  /// Ranks other than awaited() from which the rest of the run needs slices that have not come:
  /// they may be late, or waiting themselves.
  std::vector<Rank> silent() const;
  /// Adds what its runs have sent and received so far, failed ones included.
  void add_traffic(TrafficTable& table) const;

 private:
  using BlockPlace = lanes::BlockPlace;
  using Extent = lanes::Extent;
  using Volume = lanes::Volume;
  using ReadyStep = lanes::ReadyStep;
  using Place = lanes::Place;
  using Shape = lanes::Shape;
  using ShortStep = lanes::ShortStep;
  using ReadyLane = lanes::ReadyLane;
  static constexpr std::size_t kRowsBytes = lanes::StepRoom::kRowsBytes;

  Plan();
  Status resolve(const PlanRequest& request, LinkTable& links);
  /// Whether the blocks have the sizes of the last run.
  bool has_sizes_of(const PlanRun& run) const {
    return run.block_counts == problem_.block_counts && run.output_counts == problem_.output_counts;
  }
  /// Sets fills_block of all steps.
  void find_fillers();
  /// The blocks' extents and the number of windows.
  void measure();
  Status resolve_step(const PlanRequest& request, const Lane& lane, std::uint16_t number,
                      const Step& step, LinkTable& links, ReadyStep& ready);
  void place(const PlanRequest& request, const Lane& lane, const std::vector<Operand>& operands,
             std::vector<BlockPlace>& parts) const;

  Polled poll_any();
  /// Prepares for a run whose block sizes differ from those of the last one.
  void begin_with_sizes_of(const PlanRun& run);
  void end_run() {
    runs_++;
    copying_.end();
  }
  Result<bool> advance_lane(ReadyLane& lane);
  /// Resolves the present step's memory for the present window.
  void enter(ReadyLane& lane);
  std::size_t locate(ReadyLane& lane, const std::vector<BlockPlace>& parts,
                     std::vector<MemoryRange>& pieces);
  /// Appends elements [first, first + elems) of a buffer that has several segments.
  void append(const BufferView& view, std::uint64_t first, std::uint64_t elems,
              std::vector<MemoryRange>& pieces) const;
  /// For a step with one block.
  const Extent& extent_of(const ReadyStep& step) const {
    const auto& part = (step.local.empty() ? step.store : step.local).front();
    return extents_.of(part);
  }
  /// Whether a lending step may lend the input that it copies: nobody writes the input. Receivers
  /// then need not wait for the copy, nor fetch lines that this rank has just written.
  bool lends_input(const ReadyStep& step) const;
  void leave(ReadyLane& lane);
  /// Offers the place of a step's result to its link, if the step only stores what it receives.
  void offer(const ReadyLane& lane, const ReadyStep& step) const;
  /// True if the present step can run.
  Result<bool> can_run(ReadyLane& lane);
  bool after_holds(const ReadyLane& lane, const ReadyStep& step) const;
  /// The header of a slice of the present run. If sizes are private, the interpreter's signature
  /// counts the whole block, so that ranks whose sizes differ by whole windows notice.
  SliceHeader header_of(std::size_t bytes) const {
    return {run_->sequence, run_->signature, static_cast<std::uint32_t>(bytes), 0};
  }
  SliceHeader header_of(const ReadyLane& lane) const {
    auto header = header_of(lane.bytes);
    if (has_private_sizes_) header.signature.count = lane.block_elems;
    return header;
  }
  static bool is_same(const SliceHeader& a, const SliceHeader& b) {
    return a.sequence == b.sequence && a.signature == b.signature && a.bytes == b.bytes;
  }
  Status check(const ReadyStep& step, std::size_t receive, const SliceHeader& header,
               const SliceHeader& expected) {
    if (is_same(header, expected)) [[likely]]
      return {};
    return mismatch(step, receive, header, expected);
  }
  /// The failure that describes how the slice differs from the expected one.
  tl::unexpected<Failure> mismatch(const ReadyStep& step, std::size_t receive,
                                   const SliceHeader& header, const SliceHeader& expected);
  Status run_step(ReadyLane& lane);
  tl::unexpected<Failure> taken_back(const ReadyStep& step, std::size_t receive) const;
  std::uint16_t number_of(const ReadyLane& lane) const {
    return static_cast<std::uint16_t>(&lane - lanes_.data());
  }
  /// `shared`: room for one copy of a slice for several links; null if there is none.
  void produce(ReadyLane& lane, const ReadyStep& step, std::byte* shared);
  /// Room for one copy of the slice for all receivers of the step; null if there is none, or if
  /// they read it where it is lent.
  std::byte* shared_room(const ReadyStep& step, const std::byte* lent, std::size_t bytes) const;
  /// `lent`: null if the slice is in the links' rooms or in `shared`.
  void send(const ReadyStep& step, const SliceHeader& header, const std::byte* lent,
            std::byte* shared);
  void combine(ReadyLane& lane, const ReadyStep& step, std::byte* slot);
  /// Combines so many of the room's sources, a piece of the step's data, into contiguous memory.
  void combine_piece(const ReadyLane& lane, const ReadyStep& step, std::size_t sources,
                     std::byte* out, std::size_t bytes, bool streams);
  /// Combines so many of the room's sources, a piece of the step's data, to where it is lent from,
  /// as Copier::sender_aside has it.
  void combine_aside(const ReadyStep& step, std::size_t sources, std::byte* out, std::size_t bytes);
  /// Whether the present step stores more than the caches keep, and nobody reads it there soon.
  bool streams(const ReadyLane& lane, const ReadyStep& step) const {
    return copying_.streams() && !step.store.empty() && (step.sends.empty() || lane.lends_input);
  }
  /// Advances the check of counts, if there is one.
  Result<bool> advance_check();
  /// Advances pushed slices, and updates owes_.
  Polled flush();
  /// The same for slices just pushed, before this rank looks for received ones: a peer may be
  /// waiting, and looking may take a system call.
  Polled flush_before(const ReadyStep& step) {
    return pushed_ && !step.receives.empty() ? flush() : Polled::waits;
  }

  // plan_standing.cpp: for the observer
  void tell_begin();
  void tell_move(ReadyLane& lane);
  void tell_run(ReadyLane& lane, std::size_t bytes);

  // plan_traffic.cpp
  /// The volume of a step with these parts, in the lane's windows below `end`.
  Volume volume_of(const ReadyLane& lane, const std::vector<BlockPlace>& parts,
                   std::uint64_t end) const;
  Volume volume_of(const ReadyLane& lane, std::size_t step, std::uint64_t end) const;
  /// Call before the block sizes change.
  void settle_runs();

  // plan_short.cpp
  bool place_short(const std::vector<BlockPlace>& parts, Place& place) const;
  /// Makes the lanes' short_steps; true if every run with contiguous buffers is short.
  bool make_short();
  static Shape shape_of(const ReadyStep& step, const ShortStep& made);
  std::byte* at(ReadyLane& lane, const Place& place) const {
    if (place.buffer == Buffer::scratch) return lane.scratch.data() + place.offset;
    return (place.buffer == Buffer::input ? run_->input : run_->output).data + place.offset;
  }
  /// `observed`: reports to the observer. A template, so that runs without one pay nothing.
  template <bool observed>
  Polled poll_short();
  // Each executes the lane's present step, unless it must wait.
  template <bool observed>
  Polled run_short(ReadyLane& lane);
  template <bool observed>
  Polled give(ReadyLane& lane, const ShortStep& step);
  template <bool observed>
  Polled take(ReadyLane& lane, const ShortStep& step);
  [[gnu::noinline]] Polled failed(Failure failure);
  /// Returns `waits`, or `failed` if the link has failed.
  template <typename Link>
  Polled stuck(const Link& link);

  Problem problem_;
  std::uint32_t blocks_ = 1;
  Algorithm algorithm_ = Algorithm::ring;
  std::uint32_t rank_ = 0;
  std::size_t elem_bytes_ = 1;
  std::uint64_t cached_bytes_ = UINT64_MAX;
  bool oversubscribed_ = false;
  std::uint64_t slice_elems_ = 1;
  std::uint64_t stripes_ = 1;
  CombineFunction combine_ = nullptr;
  std::unique_ptr<CustomFold> custom_fold_;  ///< instead of combine_, for the caller's own function
  std::vector<ReadyLane> lanes_;
  bool can_be_short_ = false;
  bool has_private_sizes_ = false;
  bool tells_empty_blocks_ = false;
  bool lends_results_ = false;                        ///< of combining
  std::vector<std::pair<SendLink*, Rank>> outgoing_;  ///< every link the program sends on, once
  std::vector<ReceiveLink*> incoming_;                ///< and receives on
  lanes::StepRoom room_;

  std::unique_ptr<CountCheck> count_check_;
  std::unique_ptr<StepObserver> observer_;
  std::uint64_t runs_ = 0;  ///< that are over, with blocks of the present sizes
  CopyPolicy copying_;

  // The present run:
  const PlanRun* run_ = nullptr;
  std::optional<Failure> failure_;  ///< of poll()
  bool done_ = true;
  bool rests_ = false;
  enum class Mode : std::uint8_t { interpreted, brief, brief_observed };
  Mode mode_ = Mode::interpreted;
  bool pushed_ = false;  ///< since the last flush
  bool owes_ = false;    ///< some pushed slice may not have left, or some lent memory not be back
  std::uint64_t windows_ = 0;
  std::uint64_t limit_ = 0;  ///< number of windows open so far
  lanes::Extents extents_;
  std::size_t bytes_at_once_ = 0;      ///< of one lane in one round
  std::optional<MadeCall> different_;  ///< of check()
};

}  // namespace ccoll
