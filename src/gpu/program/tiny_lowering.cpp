// SPDX-License-Identifier: Apache-2.0
#include "gpu/program/tiny_lowering.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

namespace ccoll::device {
namespace {

class TinyLowering {
 public:
  TinyLowering(const LowerRequest& request, LoweredTeam& team) : request_(request), team_(team) {
    const Problem& problem = request_.problem;
    for (Rank rank = 0; rank < problem.size; ++rank) {
      own_offsets_.push_back(size_of(request_.type) *
                             block_offset(view_of(problem, rank), problem.size, rank));
    }
  }

  bool run() {
    if (request_.tiny_bytes == 0) return false;
    // A block runs the windows of its stripe.
    if (team_.program.windows > team_.program.stripes || !are_few()) return false;
    if (!are_lanes_ordered()) return false;
    join_lanes();
    for (TeamStep& step : team_.steps) step.lends = false;
    for (TeamEnd& end : team_.ends) {
      end.lent = {};
      end.loan = {};
    }
    for (TeamChannel& channel : team_.channels) channel.slot_bytes = 0;
    team_.program.useful_threads = useful_threads_;
    return team_.program.by_words = true;
  }

 private:
  std::span<const TeamStep> steps_of(const TeamBlock& block) const {
    return std::span(team_.steps).subspan(block.steps.begin, block.steps.size());
  }

  /// The bytes of a slice that the step makes.
  std::uint64_t bytes_of(const TeamStep& step, const TeamBlock& block) const {
    const Range layout = step.has_store() ? step.store : step.local;
    std::uint64_t bytes = 0;
    for (std::uint32_t i = layout.begin; i < layout.end; ++i) {
      bytes += team_.program.bytes_of(team_.parts[i], block.stripe);
    }
    return bytes;
  }

  /// Gives each slice its own words; false if there are too few, or a slice is too large.
  bool are_few() {
    std::vector<std::uint64_t> bytes(team_.channels.size());
    std::array<std::uint64_t, kMostTeamDevices> used = {};
    std::vector<std::vector<std::uint32_t>> places(team_.channels.size());
    std::uint64_t largest = 0;
    for (const TeamBlock& block : team_.blocks) {
      for (const TeamStep& step : steps_of(block)) {
        const std::uint64_t slice = bytes_of(step, block);
        largest = std::max(largest, slice);
        if (slice > request_.tiny_bytes) return false;
        for (std::uint32_t i = step.sends.begin; i < step.sends.end; ++i) {
          TeamEnd& end = team_.ends[i];
          std::uint64_t& next = used[team_.channels[end.channel].to];
          bytes[end.channel] += slice;
          if (bytes[end.channel] > request_.tiny_bytes) return false;
          if (next + tiny_words_of(slice) > kTinyWords) return false;
          places[end.channel].push_back(end.words = static_cast<std::uint32_t>(next));
          next += tiny_words_of(slice);
        }
      }
    }
    // A window's k-th slice of a channel is taken by the k-th step that receives from it.
    std::vector<std::size_t> taken(team_.channels.size());
    for (const TeamStep& step : team_.steps) {
      for (std::uint32_t i = step.receives.begin; i < step.receives.end; ++i) {
        TeamEnd& end = team_.ends[i];
        end.words = places[end.channel][taken[end.channel]++];
      }
    }
    useful_threads_ = static_cast<std::uint32_t>((largest + kTinyUnit - 1) / kTinyUnit);
    return true;
  }

  /// Whether flags order all lanes of a rank that share memory which one of them writes. Messages
  /// can order lanes, too, but not as words.
  bool are_lanes_ordered() const {
    for (const TeamBlock& one : team_.blocks) {
      for (const TeamBlock& other : team_.blocks) {
        if (one.rank != other.rank || one.number >= other.number) continue;
        if (!are_ordered(one, other)) return false;
      }
    }
    return true;
  }

  bool are_ordered(const TeamBlock& one, const TeamBlock& other) const {
    for (std::uint32_t i = 0; i < one.steps.size(); ++i) {
      for (std::uint32_t j = 0; j < other.steps.size(); ++j) {
        if (!conflict(one, i, other, j) || comes_after(one, i, other, j) ||
            comes_after(other, j, one, i))
          continue;
        return false;
      }
    }
    return true;
  }

  /// Whether a step waits for a flag that is written after the other step.
  bool comes_after(const TeamBlock& block, std::uint32_t step, const TeamBlock& other,
                   std::uint32_t other_step) const {
    return std::ranges::any_of(steps_of(block).first(step + 1), [&](const TeamStep& each) {
      return each.after == other.number && each.after_step >= other_step;
    });
  }

  bool conflict(const TeamBlock& one, std::uint32_t i, const TeamBlock& other,
                std::uint32_t j) const {
    const TeamStep &a = steps_of(one)[i], &b = steps_of(other)[j];
    return overlap(a.store, one, b.store, other) || overlap(a.store, one, b.local, other) ||
           overlap(a.local, one, b.store, other);
  }

  struct Stretch {
    std::uint32_t buffer = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  bool overlap(Range a, const TeamBlock& one, Range b, const TeamBlock& other) const {
    for (std::uint32_t i = a.begin; i < a.end; ++i) {
      for (std::uint32_t j = b.begin; j < b.end; ++j) {
        const Stretch x = stretch(team_.parts[i], one), y = stretch(team_.parts[j], other);
        if (x.buffer == y.buffer && x.begin < y.end && y.begin < x.end) return true;
      }
    }
    return false;
  }

  /// The memory of a part that a block reads or writes. In place, input and output are one buffer,
  /// and one that holds only the rank's own block begins at that block's offset. So stretches that
  /// overlap in separate buffers overlap in place, too.
  Stretch stretch(const TeamPart& part, const TeamBlock& block) const {
    const std::uint64_t moved = part.moves ? block.stripe * team_.program.slice_bytes : 0;
    Stretch at{part.buffer, part.offset + moved, 0};
    const bool is_in_place = !request_.in_place.empty() && request_.in_place[block.rank];
    if (is_in_place && part.buffer < team_.program.workspace) {
      const Buffer buffer = part.buffer % 2 == 0 ? Buffer::input : Buffer::output;
      at.buffer = 2 * block.rank;
      if (holds_own_block_only(request_.problem.kind, buffer)) at.begin += own_offsets_[block.rank];
    }
    at.end = at.begin + team_.program.bytes_of(part, block.stripe);
    return at;
  }

  /// Joins blocks that run one after the other anyhow, because the first step of one comes after
  /// the last step of the other. So no flag passes between them.
  void join_lanes() {
    const std::vector<TeamBlock> blocks = std::move(team_.blocks);
    const std::vector<TeamStep> steps = std::move(team_.steps);
    const auto next = followers(blocks, steps);
    team_.blocks.clear();
    team_.steps.clear();
    std::vector<std::uint32_t> block_of(blocks.size()), first_of(blocks.size());
    for (std::uint32_t number = 0; number < blocks.size(); ++number) {
      if (std::ranges::count(next, number) != 0) continue;
      TeamBlock joined = blocks[number];
      joined.number = static_cast<std::uint32_t>(team_.blocks.size());
      joined.steps.begin = static_cast<std::uint32_t>(team_.steps.size());
      for (std::uint32_t part = number; part != kNone; part = next[part]) {
        block_of[part] = joined.number;
        first_of[part] = static_cast<std::uint32_t>(team_.steps.size()) - joined.steps.begin;
        const auto own =
            std::span(steps).subspan(blocks[part].steps.begin, blocks[part].steps.size());
        team_.steps.insert(team_.steps.end(), own.begin(), own.end());
        if (part != number) team_.steps[joined.steps.begin + first_of[part]].after = kNone;
      }
      joined.steps.end = static_cast<std::uint32_t>(team_.steps.size());
      team_.program.span = std::max<std::uint64_t>(team_.program.span, joined.steps.size());
      team_.blocks.push_back(joined);
    }
    for (TeamStep& step : team_.steps) {
      if (step.after == kNone) continue;
      step.after_step += first_of[step.after];
      step.after = block_of[step.after];
      step.after_steps = team_.blocks[step.after].steps.size();
    }
  }

  /// For each block, the one that is to run behind it, or kNone.
  static std::vector<std::uint32_t> followers(const std::vector<TeamBlock>& blocks,
                                              const std::vector<TeamStep>& steps) {
    std::vector<std::uint32_t> next(blocks.size(), kNone);
    for (const TeamBlock& block : blocks) {
      const TeamStep& first = steps[block.steps.begin];
      if (first.after == kNone || next[first.after] != kNone) continue;
      if (first.after_step + 1 == blocks[first.after].steps.size())
        next[first.after] = block.number;
    }
    return next;
  }

  const LowerRequest& request_;
  LoweredTeam& team_;
  std::uint32_t useful_threads_ = 0;
  std::vector<std::uint64_t> own_offsets_;  ///< by rank: where its own block is, in bytes
};

}  // namespace

bool put_by_words(const LowerRequest& request, LoweredTeam& team) {
  return TinyLowering(request, team).run();
}

}  // namespace ccoll::device
