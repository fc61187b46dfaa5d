// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The places of a step's data in one window of any run, for StepExecutor: several segments, rows
/// with gaps, blocks of different sizes.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/plan/block_layout.hpp"
#include "engine/plan/lanes.hpp"
#include "engine/plan/step_context.hpp"
#include "engine/reading.hpp"

namespace ccoll {

/// Resolves the data of the lane's present step in its present window.
void enter(ReadyLane& lane, const BlockLayout& layout, const PlanRun& run);

class WindowPlaces {
 public:
  static constexpr bool kMayFold = true;

  /// `context`: must outlive this.
  WindowPlaces(const StepContext& context, const BlockLayout& layout, ReadyLane& lane)
      : context_(context), layout_(layout), lane_(lane), step_(lane.step()) {}

  const PlanRun& run() const { return context_.run; }
  const ReadyStep& step() const { return step_; }
  const std::vector<ReceiveLink*>& receives() const { return step_.receives; }
  const std::vector<SendLink*>& sends() const { return step_.sends; }
  Reading reading() const { return Reading(step_.receives); }
  std::size_t bytes() const { return lane_.data.bytes; }
  /// If sizes are private, its signature counts the whole block, so that ranks whose sizes differ
  /// by whole windows notice.
  SliceHeader header() const {
    auto header = context_.header_of(lane_.data.bytes);
    if (layout_.has_private_sizes()) header.signature.count = lane_.data.block_elems;
    return header;
  }
  Copier copier() const { return context_.copying.copier(); }
  const Combiner& combiner() const { return context_.combiner; }

  /// Offers the place of the step's result to its link, if it only stores what it receives. Not
  /// before the step may run but for its links: until then the place may still be in use.
  void offer() const;
  void lacks(std::size_t link) const { lane_.lacked = static_cast<std::uint32_t>(link); }
  void add_source(std::size_t /*receive*/, const std::byte* /*data*/) const {}

  void begin() const {
    if (is_told()) context_.reporter.move(lane_);
  }
  bool stores() const { return !step_.store.empty(); }
  bool lends() const { return lane_.data.lends; }
  bool lends_input() const { return lane_.data.lends_input; }
  const std::byte* lent() const;
  /// `slot`: the result's place, if it is not stored.
  void make(std::byte* slot) const;
  void copy_made(const std::byte* slot, std::byte* room) const;
  void end() const {
    if (is_told()) context_.reporter.ran(lane_, lane_.data.bytes);
  }

 private:
  /// Observers know the program, which has no slices without data.
  bool is_told() const { return context_.reporter.has_observer() && lane_.data.bytes > 0; }
  /// Combines so many of the combiner's sources, a piece of the step's data, into contiguous
  /// memory.
  void make_piece(std::size_t sources, std::byte* out, std::size_t bytes, bool streams) const;
  /// Whether the step stores more than the caches keep, and nobody reads it there soon.
  bool streams() const {
    return context_.copying.streams() && stores() &&
           (step_.sends.empty() || lane_.data.lends_input);
  }

  const StepContext& context_;
  const BlockLayout& layout_;
  ReadyLane& lane_;
  const ReadyStep& step_;
};

}  // namespace ccoll
