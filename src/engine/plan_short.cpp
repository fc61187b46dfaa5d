// SPDX-License-Identifier: Apache-2.0
// Executes short calls: plans with one window, whose steps each have contiguous data. Their places
// are computed once; the interpreter of plan.cpp computes them for every window. Tests verify that
// both do the same reads, writes, sends and receives.
#include "core/copy.hpp"
#include "engine/plan.hpp"
#include "engine/plan/execute.hpp"
#include "engine/plan/short_places.hpp"

namespace ccoll {

template <bool observed>
Polled Plan::poll_short() {
  bool moved = false, finished = true;
  for (auto& lane : lanes_) {
    for (; lane.window == 0 && lane.position < lane.short_steps.size(); lane.position++) {
      const auto& step = lane.short_steps[lane.position];
      const auto ran = step.shape == ShortShape::gives   ? give<observed>(lane, step)
                       : step.shape == ShortShape::takes ? take<observed>(lane, step)
                                                         : run_short<observed>(lane, step);
      if (ran == Polled::failed) return ran;
      if (ran == Polled::waits) break;
      moved = true;
    }
    if (lane.position == lane.short_steps.size()) lane.window = 1;
    finished &= lane.window > 0;
  }
  const auto flushed = executor_.flush();
  if (flushed == Polled::failed) return flushed;
  if (!finished || executor_.owes()) return moved ? Polled::moved : flushed;
  end_run();
  if constexpr (observed) reporter_.end();
  return Polled::done;
}

template <bool observed>
Polled Plan::give(ReadyLane& lane, const ShortStep& step) {
  if constexpr (observed) {
    if (step.to->has_room())
      reporter_.move(lane);
    else
      lane.lacked = 0;
  }
  const auto* const own = address_of(*run_, lane, step.local);
  const auto sent = executor_.give(*step.to, context().header_of(step.bytes), own);
  if (sent != Polled::moved) return sent;
  if (step.store.bytes > 0)
    if (auto* const stored = address_of(*run_, lane, step.store); stored != own)
      copy_few(stored, own, step.bytes);
  if constexpr (observed) reporter_.ran(lane, step.bytes);
  return Polled::moved;
}

template <bool observed>
Polled Plan::take(ReadyLane& lane, const ShortStep& step) {
  TakePlaces<observed> places(context(), lane, step);
  return executor_.execute(places);
}

template <bool observed>
Polled Plan::run_short(ReadyLane& lane, const ShortStep& step) {
  if (!after_holds(lanes_, lane)) {
    if constexpr (observed) lane.lacked = ReadyLane::kStep;
    return Polled::waits;
  }
  if (step.bytes == 0) return Polled::moved;
  ShortPlaces<observed> places(context(), lane, step);
  return executor_.execute(places);
}

template Polled Plan::poll_short<false>();
template Polled Plan::poll_short<true>();

}  // namespace ccoll
