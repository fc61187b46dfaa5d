// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The places of a short step's data, for StepExecutor. Each piece of data is contiguous, so that
/// few words say where it lies. `observed`: reports to the observer; runs without one pay nothing.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "core/copy.hpp"
#include "engine/plan/lanes.hpp"
#include "engine/plan/step_context.hpp"
#include "engine/reading.hpp"

namespace ccoll {

inline std::byte* address_of(const PlanRun& run, ReadyLane& lane, const BufferPlace& place) {
  if (place.buffer == Buffer::scratch) return lane.scratch.data() + place.offset;
  return (place.buffer == Buffer::input ? run.input : run.output).data + place.offset;
}

/// For ShortShape::any, with data.
template <bool observed>
class ShortPlaces {
 public:
  static constexpr bool kMayFold = false;

  ShortPlaces(const StepContext& context, ReadyLane& lane, const ShortStep& made)
      : context_(context),
        lane_(lane),
        step_(lane.step()),
        made_(made),
        own_(made.local.bytes == 0 ? nullptr : address_of(context.run, lane, made.local)),
        stored_(made.store.bytes == 0 ? nullptr : address_of(context.run, lane, made.store)) {}

  const PlanRun& run() const { return context_.run; }
  const ReadyStep& step() const { return step_; }
  const std::vector<ReceiveLink*>& receives() const { return step_.receives; }
  const std::vector<SendLink*>& sends() const { return step_.sends; }
  Reading reading() const { return Reading(step_.receives); }
  std::size_t bytes() const { return made_.bytes; }
  SliceHeader header() const { return context_.header_of(made_.bytes); }
  Copier copier() const { return context_.copying.copier(); }

  void offer() const {
    if (step_.receives.size() == 1 && !step_.combines && own_ == nullptr)
      step_.receives[0]->offer(stored_, made_.bytes);
  }
  void lacks(std::size_t link) const {
    if constexpr (observed) lane_.lacked = static_cast<std::uint32_t>(link);
  }
  void add_source(std::size_t receive, const std::byte* data) {
    if (own_ != nullptr && receive == step_.local_position) add(own_);
    add(data);
  }

  void begin() {
    if constexpr (observed) context_.reporter.move(lane_);
    if (own_ != nullptr && step_.local_position == step_.receives.size()) add(own_);
    const bool in_place = context_.run.in_place;
    lends_ = made_.lend == Lend::always || (made_.lend == Lend::if_separate && !in_place);
    lends_input_ = lends_ && step_.may_lend_input(in_place);
  }
  bool stores() const { return stored_ != nullptr; }
  bool lends() const { return lends_; }
  bool lends_input() const { return lends_input_; }
  const std::byte* lent() const {
    if (!lends_) return nullptr;
    return stored_ != nullptr && !lends_input_ ? stored_ : own_;
  }
  /// `slot`: the result's place, if it is not stored.
  void make(std::byte* slot) {
    auto& combiner = context_.combiner;
    std::byte* const out = stored_ != nullptr ? stored_ : slot;
    const std::byte* const first = combiner.sources()[0];
    if (step_.combines)
      combiner.combine(combiner.sources(), sources_, out, made_.elems, step_.divisor);
    else if (out != first)
      std::memcpy(out, first, made_.bytes);
  }
  void copy_made(const std::byte* slot, std::byte* room) const {
    std::memcpy(room, stored_ != nullptr ? stored_ : slot, made_.bytes);
  }
  void end() const {
    if constexpr (observed) context_.reporter.ran(lane_, made_.bytes);
  }

 private:
  void add(const std::byte* data) { context_.combiner.sources()[sources_++] = data; }

  const StepContext context_;
  ReadyLane& lane_;
  const ReadyStep& step_;
  const ShortStep& made_;
  std::byte* const own_;
  std::byte* const stored_;
  std::size_t sources_ = 0;
  bool lends_ = false;
  bool lends_input_ = false;
};

/// For ShortShape::takes: all that depends on the number of links is known when this is compiled.
template <bool observed>
class TakePlaces {
 public:
  static constexpr bool kMayFold = false;

  TakePlaces(const StepContext& context, ReadyLane& lane, const ShortStep& made)
      : context_(context),
        lane_(lane),
        made_(made),
        from_{made.from},
        stored_(address_of(context.run, lane, made.store)) {}

  const PlanRun& run() const { return context_.run; }
  const ReadyStep& step() const { return lane_.step(); }
  std::span<ReceiveLink* const> receives() const { return from_; }
  std::span<SendLink* const> sends() const { return {}; }
  SingleReading reading() const { return SingleReading(*from_[0]); }
  std::size_t bytes() const { return made_.bytes; }
  SliceHeader header() const { return context_.header_of(made_.bytes); }
  Copier copier() const { return Copier::receiver; }

  void offer() const {
    if (!made_.combines) from_[0]->offer(stored_, made_.bytes);
  }
  void lacks(std::size_t link) const {
    if constexpr (observed) lane_.lacked = static_cast<std::uint32_t>(link);
  }
  void add_source(std::size_t /*receive*/, const std::byte* data) { received_ = data; }

  void begin() const {
    if constexpr (observed) context_.reporter.move(lane_);
  }
  static constexpr bool stores() { return true; }
  static constexpr bool lends() { return false; }
  static constexpr bool lends_input() { return false; }
  static constexpr const std::byte* lent() { return nullptr; }
  void make(std::byte* /*slot*/) const {
    if (made_.combines) {
      const bool has_own = made_.local.bytes > 0;
      const auto* const own = has_own ? address_of(context_.run, lane_, made_.local) : nullptr;
      const std::array sources =
          has_own && made_.own_first ? std::array{own, received_} : std::array{received_, own};
      context_.combiner.combine(sources.data(), has_own ? 2 : 1, stored_, made_.elems,
                                made_.divisor);
    } else if (received_ != stored_) {
      copy_few(stored_, received_, made_.bytes);
    }
  }
  void copy_made(const std::byte* /*slot*/, std::byte* /*room*/) const {}
  void end() const {
    if constexpr (observed) context_.reporter.ran(lane_, made_.bytes);
  }

 private:
  const StepContext context_;
  ReadyLane& lane_;
  const ShortStep& made_;
  const std::array<ReceiveLink*, 1> from_;
  std::byte* const stored_;
  const std::byte* received_ = nullptr;
};

}  // namespace ccoll
