// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A program made ready to run on this rank's links, and the state of its present run: the
/// interpreter of schedules. One call at a time uses it, so that repeating a call allocates
/// nothing. Called only by the holder of the communicator's owner flag.

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
#include "engine/traffic.hpp"
#include "engine/windows.hpp"
#include "kernels/combine.hpp"
#include "schedule/schedule.hpp"
#include "schedule/step_record.hpp"

namespace ccoll {

class CountCheck;

/// Whether ranks that have nothing for each other say so, by a slice without data. In an all_to_all
/// of many ranks such slices would cost much more than the few that sparse exchanges have.
bool tells_empty_blocks(const Problem& problem);

/// What a Plan is made from.
struct PlanRequest {
  /// As this rank sees it. Ragged blocks' sizes may differ from run to run: programs do not depend
  /// on them.
  Problem problem;
  Choice choice;
  Program program;
  DataType type = DataType::uint8;
  /// Also of a pre-multiplied sum, whose input start() is given multiplied. None: each run brings
  /// the caller's own function.
  std::optional<ReduceOp> op = ReduceOp::sum;
  /// Of this rank's buffers, what the caches keep. Where it is less than they are, outputs are
  /// written past the caches, if that is worth it.
  std::uint64_t cached_bytes = UINT64_MAX;
  /// Ranks outnumber the cores of their machine.
  bool oversubscribed = false;
  /// The number of its first lane on the links.
  std::uint16_t first_lane = 0;
  /// Where sizes are private and empty blocks not told: the program of its CountCheck.
  std::optional<Program> count_check;
};

/// One run of a Plan. The buffers, and `custom`, belong to it until done() or a failure.
struct PlanRun {
  BufferView input;
  BufferView output;
  /// Whether input and output share memory.
  bool in_place = false;
  /// The blocks' sizes, where they are not those of the plan's problem (see Problem).
  std::vector<std::uint64_t> block_counts;
  std::vector<std::uint64_t> output_counts;
  std::shared_ptr<const Reduction::Custom> custom;
  const void* custom_for = nullptr;  ///< of whom is_folding_for() is true in it
  Signature signature;
  std::uint64_t sequence = 0;
  /// So many may be run: the buffers have no more yet. While the plan rests() this may grow, and
  /// the buffers be others, in which views have the rest of them.
  std::uint64_t open_windows = UINT64_MAX;
};

class Plan {
 public:
  ~Plan();
  /// Opens the links that the program needs.
  static Result<std::unique_ptr<Plan>> make(const PlanRequest& request, LinkTable& links);

  /// Begins a run, which must live until done() or a failure.
  void start(const PlanRun& run);
  /// Moves every lane on, for a bounded number of steps; true if anything moved.
  Result<bool> advance();
  bool done() const { return done_; }
  /// Whether all windows that may be run are over, on this rank and with all it has sent to others,
  /// and there are more.
  bool rests() const { return rests_; }
  /// Whether the present run is one of plan_short.cpp's.
  bool is_short() const { return mode_ != Mode::interpreted; }
  /// advance() for who polls in a loop of its own: a value that costs nothing while all is well.
  enum class Polled : std::uint8_t { waits, moved, done, failed };
  Polled poll() {
    if (mode_ == Mode::brief && !done_) [[likely]]
      return poll_short<false>();
    return poll_any();
  }
  /// Of a poll that failed; once.
  Failure take_failure() { return *std::exchange(failure_, std::nullopt); }
  /// After a mismatch: the peer's call, as its slice has it.
  const std::optional<MadeCall>& different() const { return different_; }

  /// Tells `observer` of every run that begins from now on.
  void observe(std::unique_ptr<StepObserver> observer) { observer_ = std::move(observer); }
  /// From now on the interpreter runs short calls, too: for tests that compare the two.
  void interpret_only() { can_be_short_ = false; }

  Algorithm algorithm() const { return algorithm_; }
  /// After a failure: whether it is that some ranks' counts for each other differ, and no more is
  /// known yet.
  bool counts_differ() const;
  /// Of runs with blocks of these sizes, where the plan's problem does not say them.
  Windows windows(const std::vector<std::uint64_t>& block_counts,
                  const std::vector<std::uint64_t>& output_counts) const;
  /// Where the first lane that is not done stands, of the windows that may be run; from 0. Nothing
  /// where all are.
  struct Stand {
    std::size_t lane = 0;
    std::size_t step = 0;
    std::size_t steps = 0;
    std::uint64_t window = 0;
    std::uint64_t windows = 0;
  };
  std::optional<Stand> stand() const;
  /// A number that every step of the present run makes larger: for who looks whether it moves.
  std::uint64_t steps_taken() const;
  /// The same in words: "in step 3 of 8, window 1 of 4". For messages about a run that does not
  /// move.
  std::string standing() const;
  /// The ranks (of the communicator) that the present run waits to hear from; or only those of
  /// them whose link has never been connected; or only those that keep it from going on: while a
  /// step cannot be done, not those that have yet to take what was sent to them.
  enum class Which : std::uint8_t { all, never_connected, in_the_way };
  std::vector<Rank> awaited(Which which = Which::all) const;
  /// The ranks beside those from which the rest of the present run needs what has not come: they
  /// may be late, or wait themselves.
  std::vector<Rank> silent() const;
  /// Adds what its runs have sent and received so far, also those that failed on their way.
  void add_traffic(TrafficTable& table) const;

 private:
  /// A block as a step sees it.
  struct BlockPlace {
    Buffer buffer;
    std::uint32_t block;
    std::uint64_t scratch_offset;  ///< in elements
  };
  /// Where a block begins in its buffer and how long it is, in elements.
  struct Extent {
    std::uint64_t offset;
    std::uint64_t elems;
  };
  /// What a step has passed on, to each that it sends to and from each that it receives from.
  struct Volume {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    void add(const Volume& other, std::uint64_t times) {
      messages += other.messages * times;
      bytes += other.bytes * times;
    }
  };
  struct ReadyStep {
    std::vector<BlockPlace> local;
    std::vector<BlockPlace> store;
    std::vector<ReceiveLink*> receives;
    std::vector<Rank> from;
    std::vector<SendLink*> sends;
    std::vector<Rank> to;
    std::size_t local_position = 0;  ///< own data's place among the sources, by rank
    std::optional<After> after;
    std::uint32_t divisor = 1;
    Lend lend = Lend::never;
    bool combines = false;
    bool copies_input = false;  ///< stores it, and no more
    /// Stores a block of the output, which no other step does, window after window: nobody reads or
    /// writes the rest of it meanwhile.
    bool fills_block = false;
    Volume before;  ///< of runs with blocks of other sizes
  };
  /// Where a step's data lie if they are in one piece, whichever the run's buffers are; in bytes.
  struct Place {
    std::uint64_t offset = 0;
    std::uint32_t bytes = 0;
    Buffer buffer = Buffer::input;
  };
  /// What a short step does, where that is no more than to send its own data to one peer, and store
  /// them perhaps, or to store what one peer sends, combined with its own perhaps.
  enum class Shape : std::uint8_t { any, gives, takes };
  struct ShortStep {
    Place local = {};
    Place store = {};
    std::uint32_t bytes = 0;
    std::uint32_t elems = 0;
    std::uint32_t divisor = 1;
    Shape shape = Shape::any;
    Lend lend = Lend::never;
    bool combines = false;
    bool own_first = false;       ///< of the two that are combined
    SendLink* to = nullptr;       ///< of one that gives
    ReceiveLink* from = nullptr;  ///< of one that takes
  };
  struct ReadyLane {
    static constexpr std::uint32_t kNothing = UINT32_MAX;
    static constexpr std::uint32_t kStep = UINT32_MAX - 1;
    std::vector<ReadyStep> steps;
    std::vector<ShortStep> short_steps;  ///< the same, for short runs
    std::vector<std::byte> scratch;
    std::uint64_t stripe = 0;
    // The present run:
    std::uint64_t window = 0;
    std::size_t position = 0;
    bool entered = false;
    std::size_t bytes = 0;          ///< of the present step's slice
    std::uint64_t block_elems = 0;  ///< of its block, where sizes are private
    bool has_slice = false;         ///< where not, the present step has nothing to do
    std::vector<MemoryRange> local;
    std::vector<MemoryRange> store;
    bool lends = false;
    bool lends_input = false;  ///< in place of its copy, and before that is made
    /// For the observer, what the present step lacked when it was last looked at: one of its
    /// receives or, beyond their number, of its sends; or one of the two that follow.
    std::uint32_t lacked = kNothing;
    /// What the present step lends, if it does.
    const std::vector<MemoryRange>& lendable(const ReadyStep& step) const {
      return step.store.empty() || lends_input ? local : store;
    }
  };

  /// Of what is made aside: it stays in a core's own cache until it is copied.
  static constexpr std::size_t kAsideBytes = 64 << 10;
  /// The same for rows.
  static constexpr std::size_t kRowsBytes = 32 << 10;

  Plan();
  Status resolve(const PlanRequest& request, LinkTable& links);
  /// Whether the blocks are as long as in the last run.
  bool has_sizes_of(const PlanRun& run) const {
    return run.block_counts == problem_.block_counts && run.output_counts == problem_.output_counts;
  }
  /// Which steps have fills_block.
  void find_fillers();
  /// The blocks' extents and the number of windows.
  void measure();
  Status resolve_step(const PlanRequest& request, const Lane& lane, std::uint16_t number,
                      const Step& step, LinkTable& links, ReadyStep& ready);
  void place(const PlanRequest& request, const Lane& lane, const std::vector<Operand>& operands,
             std::vector<BlockPlace>& parts) const;

  Polled poll_any();
  /// What else a run begins with, whose blocks have other sizes than the last one's.
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
  /// Elements [first, first + elems) of a buffer.
  void append(const BufferView& view, std::uint64_t first, std::uint64_t elems,
              std::vector<MemoryRange>& pieces) const;
  /// Of a step that has one block.
  const Extent& extent_of(const ReadyStep& step) const {
    const auto& part = (step.local.empty() ? step.store : step.local).front();
    return (part.buffer == Buffer::output ? outputs_ : inputs_)[part.block];
  }
  /// Whether the present step, if it lends, may lend the input that it copies: nobody writes that,
  /// and the receivers need not wait for the copy, whose memory has just been in this rank's cache.
  bool lends_input(const ReadyStep& step) const;
  void leave(ReadyLane& lane);
  /// Tells the link of a step that stores what it receives where that belongs.
  void offer(const ReadyLane& lane, const ReadyStep& step) const;
  /// True when the present step can be carried out now.
  Result<bool> can_run(ReadyLane& lane);
  bool after_holds(const ReadyLane& lane, const ReadyStep& step) const;
  /// Of a slice of the present run. Where sizes are private, the interpreter's have their block's
  /// size as the signature's count: two ranks that differ by whole windows find out, too.
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
  /// How that slice is another one than the expected one.
  tl::unexpected<Failure> mismatch(const ReadyStep& step, std::size_t receive,
                                   const SliceHeader& header, const SliceHeader& expected);
  Status run_step(ReadyLane& lane);
  tl::unexpected<Failure> taken_back(const ReadyStep& step, std::size_t receive) const;
  std::uint16_t number_of(const ReadyLane& lane) const {
    return static_cast<std::uint16_t>(&lane - lanes_.data());
  }
  /// `shared`: where a slice for several links is written once for all; null if it is not.
  void produce(ReadyLane& lane, const ReadyStep& step, std::byte* shared);
  void send(const ReadyLane& lane, const ReadyStep& step, std::byte* shared);
  /// Where the slice is written to for all of the step's receivers; null where there is no such
  /// place, or they read it where it is lent.
  std::byte* shared_room(const ReadyStep& step, const std::byte* lent, std::size_t bytes) const;
  /// `lent`: null where the slice was written to the links' rooms, or is in `shared`.
  void send(const ReadyStep& step, const SliceHeader& header, const std::byte* lent,
            std::byte* shared);
  void combine(ReadyLane& lane, const ReadyStep& step, std::byte* slot);
  /// So many of sources_, a piece of the step's data, to contiguous memory.
  void combine_piece(const ReadyLane& lane, const ReadyStep& step, std::size_t sources,
                     std::byte* out, std::size_t bytes, bool streams);
  /// So many of sources_, a piece of the step's data, to where it is lent from, as
  /// Copier::sender_aside has it.
  void combine_aside(const ReadyStep& step, std::size_t sources, std::byte* out, std::size_t bytes);
  /// Whether the present step stores what the caches cannot keep, and nobody reads from there soon.
  bool streams(const ReadyLane& lane, const ReadyStep& step) const {
    return copying_.streams() && !step.store.empty() && (step.sends.empty() || lane.lends_input);
  }
  /// Moves the check of counts on, if there is one.
  Result<bool> advance_check();
  /// Gets on what was pushed, and finds out whether it owes_ any more.
  Polled flush();
  /// The same, for what was pushed just now and a peer may wait for, before this rank looks whether
  /// something has come: where looking is a system call, it would come later by that.
  Polled flush_before(const ReadyStep& step) {
    return pushed_ && !step.receives.empty() ? flush() : Polled::waits;
  }

  // plan_standing.cpp: to the observer
  void tell_begin();
  void tell_move(ReadyLane& lane);
  void tell_run(ReadyLane& lane, std::size_t bytes);

  // plan_traffic.cpp
  /// Of one step with such parts, in the lane's windows below `end`.
  Volume volume_of(const ReadyLane& lane, const std::vector<BlockPlace>& parts,
                   std::uint64_t end) const;
  Volume volume_of(const ReadyLane& lane, std::size_t step, std::uint64_t end) const;
  /// Before blocks have other sizes.
  void settle_runs();

  // plan_short.cpp
  bool place_short(const std::vector<BlockPlace>& parts, Place& place) const;
  /// Whether every run whose buffers are in one piece is short; makes the lanes' short_steps.
  bool make_short();
  static Shape shape_of(const ReadyStep& step, const ShortStep& made);
  std::byte* at(ReadyLane& lane, const Place& place) const {
    if (place.buffer == Buffer::scratch) return lane.scratch.data() + place.offset;
    return (place.buffer == Buffer::input ? run_->input : run_->output).data + place.offset;
  }
  /// `observed`: tells the observer. A test for it at every step would cost who has none.
  template <bool observed>
  Polled poll_short();
  // Each carries the lane's present step out, if it need not wait.
  template <bool observed>
  Polled run_short(ReadyLane& lane);
  template <bool observed>
  Polled give(ReadyLane& lane, const ShortStep& step);
  template <bool observed>
  Polled take(ReadyLane& lane, const ShortStep& step);
  [[gnu::noinline]] Polled failed(Failure failure);
  /// Waits, or has failed as the link has.
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
  std::unique_ptr<CustomFold> custom_fold_;  ///< in its place, for the caller's own function
  std::vector<ReadyLane> lanes_;
  bool can_be_short_ = false;
  bool has_private_sizes_ = false;
  bool tells_empty_blocks_ = false;
  bool lends_results_ = false;                        ///< of combining
  std::vector<std::pair<SendLink*, Rank>> outgoing_;  ///< every link the program sends on, once
  std::vector<ReceiveLink*> incoming_;                ///< and receives on
  std::vector<const std::byte*> sources_;             ///< room for the widest step
  std::unique_ptr<std::byte[]> aside_;                ///< room for Copier::sender_aside
  std::unique_ptr<std::byte[]> rows_room_;            ///< twice kRowsBytes, once a run has rows

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
  bool owes_ = false;  ///< whether what was pushed may not have left, or what was lent not be back
  std::uint64_t windows_ = 0;
  std::uint64_t limit_ = 0;     ///< of the windows that may be run yet
  std::vector<Extent> inputs_;  ///< by block; scratch is measured like the input
  std::vector<Extent> outputs_;
  std::size_t bytes_at_once_ = 0;      ///< of one lane in one round
  std::optional<MadeCall> different_;  ///< of check()
};

}  // namespace ccoll
