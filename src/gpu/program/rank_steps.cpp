// SPDX-License-Identifier: Apache-2.0
#include "gpu/program/rank_steps.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace ccoll::device {
namespace {

/// A channel's ends, and how far it has come in the order of all steps.
struct Channel {
  std::uint32_t from = kNone;
  std::uint32_t to = kNone;
  std::uint32_t link = 0;
  std::uint64_t slots_at = 0;  ///< in the sender's shared memory
  std::uint64_t total = 0;     ///< slices of a call
  std::uint64_t pushed = 0;
  std::uint64_t popped = 0;
};

/// A stretch of a slice.
struct SourceRange {
  StepSource source;
  std::uint64_t bytes = 0;
};
/// The front is used next.
using SourceRanges = std::vector<SourceRange>;

class Ordering {
 public:
  Ordering(const LoweredTeam& team, std::uint32_t rank)
      : team_(team), program_(team.program), channels_(team.channels.size()) {
    out_.rank = rank;
    out_.size = program_.workspace / 2;
    out_.type = program_.type;
    out_.op = program_.op;
  }

  Result<RankSteps> run() {
    if (out_.rank >= out_.size) {
      return fail(ErrorKind::invalid_argument, "steps of rank {} of {}", out_.rank, out_.size);
    }
    CCOLL_TRY(find_channels());
    CCOLL_TRY(count_slices());
    lay_out();
    CCOLL_TRY(order());
    close();
    return std::move(out_);
  }

 private:
  struct Cursor {
    std::uint64_t window = 0;
    std::uint32_t step = 0;  ///< in its block
    std::uint64_t done = 0;
  };

  Status find_channels() {
    if (team_.program.by_words) {
      return fail(ErrorKind::invalid_argument,
                  "steps of a program by words: expected one that is lowered without them");
    }
    for (const TeamBlock& block : team_.blocks) {
      for (std::uint32_t i = block.steps.begin; i < block.steps.end; ++i) {
        const TeamStep& step = team_.steps[i];
        if (step.lends) {
          return fail(ErrorKind::invalid_argument,
                      "steps of a program that lends memory: expected one that lends none");
        }
        for_ends(step.sends, [&](Channel& channel) { channel.from = block.rank; });
        for_ends(step.receives, [&](Channel& channel) { channel.to = block.rank; });
      }
    }
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> links;
    for (Channel& channel : channels_) {
      if (channel.from == kNone || channel.to == kNone) continue;
      channel.link = links[{channel.from, channel.to}]++;
      out_.links = std::max(out_.links, channel.link + 1);
    }
    return {};
  }

  template <typename Visit>
  void for_ends(Range ends, const Visit& visit) {
    for (std::uint32_t i = ends.begin; i < ends.end; ++i) visit(channels_[team_.ends[i].channel]);
  }

  Status count_slices() {
    for (const TeamBlock& block : team_.blocks) {
      for (std::uint32_t i = block.steps.begin; i < block.steps.end; ++i) {
        const TeamStep& step = team_.steps[i];
        if (step.windows <= block.stripe) continue;
        const std::uint64_t stripes = program_.stripes;
        const std::uint64_t runs = (step.windows - block.stripe + stripes - 1) / stripes;
        for_ends(step.sends, [&](Channel& channel) { channel.total += runs; });
      }
    }
    for (const Channel& channel : channels_) {
      if (channel.total < kReleased) continue;
      return fail(ErrorKind::unsupported,
                  "{} slices from rank {} to rank {}: a call has at most {}", channel.total,
                  channel.from, channel.to, kReleased - 1);
    }
    return {};
  }

  /// Lays out each rank's shared memory: the slots that it sends by, then its scratch.
  void lay_out() {
    std::vector<std::uint64_t> used(out_.size);
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      if (channels_[i].from == kNone) continue;
      channels_[i].slots_at = used[channels_[i].from];
      used[channels_[i].from] += program_.slots * team_.channels[i].slot_bytes;
    }
    for (std::uint32_t rank = 0; rank < out_.size; ++rank) {
      std::uint64_t begin = UINT64_MAX;
      std::uint64_t end = 0;
      for_scratch(rank, [&](const TeamPart& part) {
        begin = std::min(begin, part.offset);
        end = std::max(end, part.offset + std::min(part.bytes, program_.slice_bytes));
      });
      scratch_.push_back(used[rank] - begin);
      if (end != 0) used[rank] += end - begin;
      out_.shared_bytes = std::max(out_.shared_bytes, used[rank]);
    }
  }

  template <typename Visit>
  void for_scratch(std::uint32_t rank, const Visit& visit) const {
    for (const TeamBlock& block : team_.blocks) {
      for (std::uint32_t i = block.steps.begin; block.rank == rank && i < block.steps.end; ++i) {
        for (const Range range : {team_.steps[i].local, team_.steps[i].store}) {
          for (std::uint32_t part = range.begin; part < range.end; ++part) {
            if (team_.parts[part].buffer == program_.workspace) visit(team_.parts[part]);
          }
        }
      }
    }
  }

  /// In each round each block does one step, if it can.
  Status order() {
    std::vector<Cursor> cursors(team_.blocks.size());
    std::size_t left = 0;
    for (std::size_t i = 0; i < cursors.size(); ++i) {
      cursors[i].window = team_.blocks[i].stripe;
      left += is_over(i, cursors[i]) ? 0 : 1;
    }
    while (left != 0) {
      bool moved = false;
      for (std::size_t i = 0; i < cursors.size(); ++i) {
        if (is_over(i, cursors[i]) || !can_go_on(i, cursors)) continue;
        go_on(i, cursors[i]);
        left -= is_over(i, cursors[i]) ? 1 : 0;
        moved = true;
      }
      if (!moved) {
        return fail(ErrorKind::internal,
                    "steps that wait for each other: the verifier refuses such a schedule");
      }
    }
    return {};
  }

  bool is_over(std::size_t block, const Cursor& at) const {
    const Range steps = team_.blocks[block].steps;
    return steps.begin == steps.end || at.window >= program_.windows;
  }

  const TeamStep& step_at(std::size_t block, const Cursor& at) const {
    return team_.steps[team_.blocks[block].steps.begin + at.step];
  }

  bool can_go_on(std::size_t block, const std::vector<Cursor>& cursors) {
    const Cursor& at = cursors[block];
    const TeamStep& step = step_at(block, at);
    if (step.after != kNone) {
      const std::uint64_t round = at.window / program_.stripes;
      if (cursors[step.after].done < round * step.after_steps + step.after_step + 1) return false;
    }
    if (at.window >= step.windows) return true;
    bool can = true;
    for_ends(step.receives, [&](Channel& channel) { can &= channel.pushed > channel.popped; });
    for_ends(step.sends,
             [&](Channel& channel) { can &= channel.pushed < channel.popped + program_.slots; });
    return can;
  }

  void go_on(std::size_t number, Cursor& at) {
    const TeamBlock& block = team_.blocks[number];
    const TeamStep& step = step_at(number, at);
    if (at.window < step.windows) {
      if (block.rank == out_.rank) record(block, step, at);
      for_ends(step.receives, [](Channel& channel) { ++channel.popped; });
      for_ends(step.sends, [](Channel& channel) { ++channel.pushed; });
    }
    ++at.done;
    if (++at.step < block.steps.end - block.steps.begin) return;
    at.step = 0;
    at.window += program_.stripes;
  }

  void record(const TeamBlock& block, const TeamStep& step, const Cursor& at) {
    RankStep made;
    made.lane = block.lane;
    made.number = at.step;
    made.window = at.window;
    made.waits.begin = size32(out_.words);
    for_ends(step.receives,
             [&](Channel& channel) { add_word(channel, false, channel.popped + 1); });
    for_ends(step.sends, [&](Channel& channel) {
      if (channel.pushed < program_.slots) return;
      add_word(channel, true, channel.pushed + 1 - program_.slots);
    });
    made.waits.end = size32(out_.words);
    made.folds.begin = size32(out_.folds);
    add_folds(step, at.window);
    made.folds.end = size32(out_.folds);
    made.writes.begin = size32(out_.words);
    for_ends(step.receives, [&](Channel& channel) { add_pop(channel, channel.popped + 1); });
    for_ends(step.sends, [&](Channel& channel) { add_word(channel, false, channel.pushed + 1); });
    made.writes.end = size32(out_.words);
    out_.steps.push_back(made);
  }

  void add_word(const Channel& channel, bool popped, std::uint64_t value) {
    out_.words.push_back(
        {channel.from, channel.to, channel.link, popped, static_cast<std::uint32_t>(value)});
  }

  /// Reports only the counts that the sender waits for.
  void add_pop(const Channel& channel, std::uint64_t count) {
    const bool is_last = count == channel.total;
    if (is_last) add_word(channel, false, 0);
    if (is_last || count + program_.slots <= channel.total) add_word(channel, true, count);
  }

  /// Ends the call: waits until all that this rank has sent is read.
  void close() {
    RankStep last;
    last.waits.begin = size32(out_.words);
    for_sent([&](const Channel& channel) { add_word(channel, true, channel.total); });
    last.waits.end = last.writes.begin = size32(out_.words);
    for_sent([&](const Channel& channel) { add_word(channel, true, 0); });
    last.writes.end = size32(out_.words);
    out_.steps.push_back(last);
  }

  template <typename Visit>
  void for_sent(const Visit& visit) const {
    for (const Channel& channel : channels_) {
      if (channel.from == out_.rank && channel.total != 0) visit(channel);
    }
  }

  /// Combines the sources, in order of rank, into the store or else the first send's slot. Then
  /// copies the result into the other slots.
  void add_folds(const TeamStep& step, std::uint64_t window) {
    std::vector<SourceRanges> sources;
    for (std::uint32_t i = step.receives.begin; i < step.receives.end; ++i) {
      sources.push_back(received(i, window));
    }
    const bool has_local = step.local.begin != step.local.end;
    if (has_local) {
      sources.insert(sources.begin() + step.own_place, pieces_of(step.local, window, out_.rank));
    }
    const bool stores = step.store.begin != step.store.end;
    const SourceRanges stored = pieces_of(step.store, window, out_.rank);
    // A slot has no length of its own.
    const std::uint64_t bytes =
        bytes_of(stores ? stored : sources.at(has_local ? step.own_place : 0));
    StepFold like;
    like.divisor = step.divisor;
    if (stores) fold(sources, stored, bytes, like);
    // All slices of one step are lent alike.
    if (step.sends.begin == step.sends.end || is_in_scratch(step.sends.begin)) return;
    like.is_to_slot = true;
    like.lent = buffer_of(step.sends.begin);
    SourceRanges made = stored;
    for (std::uint32_t i = step.sends.begin; i < step.sends.end; ++i) {
      const SourceRanges slot = slot_of(i, channels_[team_.ends[i].channel].pushed);
      const bool is_made = !made.empty();
      if (is_made) like.divisor = 1;
      fold(is_made ? std::vector<SourceRanges>{made} : sources, slot, bytes, like);
      if (!is_made) made = slot;
    }
  }

  /// Adds a fold like `made` for each stretch that is contiguous in all of the ranges.
  void fold(std::vector<SourceRanges> sources, SourceRanges to, std::uint64_t bytes,
            StepFold made) {
    while (bytes != 0) {
      made.bytes = std::min(bytes, to.front().bytes);
      for (const SourceRanges& source : sources)
        made.bytes = std::min(made.bytes, source.front().bytes);
      made.sources.begin = size32(out_.sources);
      for (SourceRanges& source : sources) {
        out_.sources.push_back(source.front().source);
        advance(source, made.bytes);
      }
      made.sources.end = size32(out_.sources);
      made.out = to.front().source.place;
      out_.folds.push_back(made);
      advance(to, made.bytes);
      bytes -= made.bytes;
    }
  }

  static void advance(SourceRanges& pieces, std::uint64_t bytes) {
    SourceRange& front = pieces.front();
    front.source.place.offset += bytes;
    front.source.lent_offset += bytes;
    if (front.bytes != UINT64_MAX) front.bytes -= bytes;
    if (front.bytes == 0) pieces.erase(pieces.begin());
  }

  /// The caller's buffer from which the slice of a send or a receive may be lent.
  StepBuffer buffer_of(std::uint32_t end) const {
    const TeamLoan& loan = team_.ends[end].loan;
    if (!loan.is_any() || loan.buffer == program_.workspace) return {};
    return {loan.buffer % 2 == 0 ? StepPlace::In::input : StepPlace::In::output, loan.if_separate};
  }
  /// Whether the slice of a send or a receive is lent from scratch, which all ranks see.
  bool is_in_scratch(std::uint32_t end) const {
    const TeamLoan& loan = team_.ends[end].loan;
    return loan.is_any() && !loan.if_separate && loan.buffer == program_.workspace;
  }

  /// A slice as its receiver finds it.
  SourceRanges received(std::uint32_t end, std::uint64_t window) const {
    const Channel& channel = channels_[team_.ends[end].channel];
    SourceRanges slot = slot_of(end, channel.popped);
    if (is_in_scratch(end)) return pieces_of(team_.ends[end].loan.parts, window, channel.from);
    const StepBuffer lent = buffer_of(end);
    if (!lent.is_any()) return slot;
    SourceRanges pieces = pieces_of(team_.ends[end].loan.parts, window, channel.from);
    for (auto& [source, bytes] : pieces) {
      source.lent = lent;
      source.lent_offset = source.place.offset;
      source.place = slot.front().source.place;
      slot.front().source.place.offset += bytes;
    }
    return pieces;
  }

  SourceRanges slot_of(std::uint32_t end, std::uint64_t count) const {
    const std::uint32_t number = team_.ends[end].channel;
    const Channel& channel = channels_[number];
    const std::uint64_t slot = count % program_.slots * team_.channels[number].slot_bytes;
    const StepPlace place{StepPlace::In::shared, channel.from, channel.slots_at + slot};
    return {{{place, {}, 0}, UINT64_MAX}};
  }

  SourceRanges pieces_of(Range parts, std::uint64_t window, std::uint32_t rank) const {
    SourceRanges pieces;
    for (std::uint32_t i = parts.begin; i < parts.end; ++i) {
      const TeamPart& part = team_.parts[i];
      const std::uint64_t first = window * program_.slice_bytes;
      if (part.bytes <= first) continue;
      const std::uint64_t offset = part.offset + (part.moves ? first : 0);
      pieces.push_back({{place_of(part.buffer, offset, rank), {}, 0},
                        std::min(part.bytes - first, program_.slice_bytes)});
    }
    return pieces;
  }

  StepPlace place_of(std::uint32_t buffer, std::uint64_t offset, std::uint32_t rank) const {
    if (buffer == program_.workspace) {
      return {StepPlace::In::shared, rank, scratch_[rank] + offset};
    }
    return {buffer % 2 == 0 ? StepPlace::In::input : StepPlace::In::output, rank, offset};
  }

  static std::uint64_t bytes_of(const SourceRanges& pieces) {
    std::uint64_t bytes = 0;
    for (const SourceRange& piece : pieces) bytes += piece.bytes;
    return bytes;
  }

  template <typename T>
  static std::uint32_t size32(const std::vector<T>& list) {
    return static_cast<std::uint32_t>(list.size());
  }

  const LoweredTeam& team_;
  const TeamProgram& program_;
  std::vector<Channel> channels_;
  /// By rank, what to add to an offset of its scratch; may wrap around.
  std::vector<std::uint64_t> scratch_;
  RankSteps out_;
};

}  // namespace

Result<RankSteps> steps_of(const LoweredTeam& team, std::uint32_t rank) {
  return Ordering(team, rank).run();
}

}  // namespace ccoll::device
