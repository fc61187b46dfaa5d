// SPDX-License-Identifier: Apache-2.0
// The executor of short calls: of plans whose blocks are one window, each step's data in one piece.
// What the interpreter of plan.cpp finds out for every window stands ready here. It does the same
// reads, writes, sends and receives, and tests hold it to that.
#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/plan.hpp"
#include "engine/reading.hpp"

namespace ccoll {

bool Plan::place_short(const std::vector<Part>& parts, Place& place) const {
  for (const auto& part : parts) {
    const auto& extent = (part.buffer == Buffer::output ? outputs_ : inputs_)[part.block];
    if (extent.elems == 0) continue;
    const bool scratch = part.buffer == Buffer::scratch;
    const auto offset = (scratch ? part.scratch_offset : extent.offset) * elem_bytes_;
    if (place.bytes == 0)
      place = {part.buffer, offset, 0};
    else if (place.buffer != part.buffer || place.offset + place.bytes != offset)
      return false;
    place.bytes += extent.elems * elem_bytes_;
  }
  return true;
}

bool Plan::make_short() {
  if (windows_ != 1 || custom_fold_ || !problem_.block_counts.empty()) return false;
  for (auto& lane : lanes_) {
    for (const auto& step : lane.steps) {
      auto& made = lane.short_steps.emplace_back();
      if (!place_short(step.local, made.local) || !place_short(step.store, made.store))
        return false;
      made.bytes =
          static_cast<std::uint32_t>(step.local.empty() ? made.store.bytes : made.local.bytes);
      made.lend = step.store.empty() && !step.receives.empty() ? Lend::never : step.lend;
    }
  }
  return true;
}

Plan::Polled Plan::failed(Failure failure) {
  failure_ = std::move(failure);
  return Polled::failed;
}

template <typename Link>
Plan::Polled Plan::stuck(const Link& link) {
  const Failure* const failure = link.failure();
  return failure == nullptr ? Polled::waits : failed(*failure);
}

template <bool observed>
Plan::Polled Plan::poll_short() {
  bool moved = false, finished = true;
  for (auto& lane : lanes_) {
    while (lane.window == 0) {
      if (lane.position == lane.steps.size()) {
        lane.window = 1;
        break;
      }
      const auto& step = lane.steps[lane.position];
      if (step.after && !after_holds(lane, step)) {
        if constexpr (observed) lane.lacked = ReadyLane::kStep;
        break;
      }
      if (lane.short_steps[lane.position].bytes > 0) {
        if (flush_before(step) == Polled::failed) return Polled::failed;
        const auto ran = run_short<observed>(lane);
        if (ran == Polled::failed) return ran;
        if (ran == Polled::waits) break;
      }
      lane.position++;
      moved = true;
    }
    finished &= lane.window > 0;
  }
  const auto flushed = flush();
  if (flushed == Polled::failed) return flushed;
  moved |= flushed == Polled::moved;
  if (finished)
    finished = std::ranges::all_of(outgoing_, [](const auto& out) { return out.first->drained(); });
  done_ = finished;
  if constexpr (observed)
    if (finished) observer_->ends();
  if (finished) return Polled::done;
  return moved ? Polled::moved : Polled::waits;
}

template <bool observed>
Plan::Polled Plan::run_short(ReadyLane& lane) {
  const auto& step = lane.steps[lane.position];
  const auto& [local, store, bytes, lend] = lane.short_steps[lane.position];
  const auto& run = *run_;
  const auto at = [&](const Place& place) {
    if (place.buffer == Buffer::scratch) return lane.scratch.data() + place.offset;
    return (place.buffer == Buffer::input ? run.input : run.output).data + place.offset;
  };
  std::byte* const own = local.bytes == 0 ? nullptr : at(local);
  std::byte* const stored = store.bytes == 0 ? nullptr : at(store);

  // All are looked at, also when the first is missing, so that all of them move.
  bool ready = true;
  for (std::size_t i = 0; i < step.sends.size(); i++) {
    if (step.sends[i]->has_room()) continue;
    if (stuck(*step.sends[i]) == Polled::failed) return Polled::failed;
    if constexpr (observed) lane.lacked = static_cast<std::uint32_t>(step.receives.size() + i);
    ready = false;
  }
  if (step.receives.size() == 1 && !step.combines && own == nullptr)
    step.receives[0]->offer(stored, bytes);
  std::size_t sources = 0;
  for (std::size_t i = 0; i < step.receives.size(); i++) {
    if (own != nullptr && i == step.local_position) sources_[sources++] = own;
    const auto* view = step.receives[i]->front();
    if (view == nullptr) {
      if (stuck(*step.receives[i]) == Polled::failed) return Polled::failed;
      if constexpr (observed) lane.lacked = static_cast<std::uint32_t>(i);
      ready = false;
      continue;
    }
    if (auto good = check(step, i, view->header, bytes); !good)
      return failed(std::move(good.error()));
    sources_[sources++] = view->data;
  }
  if (!ready) return Polled::waits;
  if constexpr (observed) tell_move(lane);
  if (own != nullptr && step.local_position == step.receives.size()) sources_[sources++] = own;

  const bool lends = lend == Lend::always || (lend == Lend::if_separate && !run.in_place);
  const bool lends_input = lends && this->lends_input(step);
  const std::byte* const lent = !lends ? nullptr : stored != nullptr && !lends_input ? stored : own;
  std::byte* const shared =
      step.sends.size() > 1 ? step.sends[0]->shared_room(lent, bytes) : nullptr;
  if (lends_input) send(step, bytes, lent, shared);
  {
    Reading reading(step.receives);
    if (const auto gone = reading.begin(); gone < step.receives.size())
      return failed(taken_back(step, gone).value());
    std::byte* out = stored;
    if (out == nullptr && !lends) out = shared != nullptr ? shared : step.sends[0]->room(bytes);
    if (out != nullptr && step.combines)
      combine_(sources_.data(), sources, out, bytes / elem_bytes_, step.divisor);
    else if (out != nullptr && out != sources_[0])
      std::memcpy(out, sources_[0], bytes);
    const auto copy_to = [&, bytes = bytes](std::byte* room) {
      if (room != out) std::memcpy(room, out, bytes);
    };
    if (!lends && shared != nullptr)
      copy_to(shared);
    else if (!lends)
      for (auto* link : step.sends) copy_to(link->room(bytes));
    if (const auto gone = reading.end(); gone < step.receives.size())
      return failed(taken_back(step, gone).value());
  }
  if (!lends_input) send(step, bytes, lent, shared);
  if constexpr (observed) tell_run(lane, bytes);
  return Polled::moved;
}

template Plan::Polled Plan::poll_short<false>();
template Plan::Polled Plan::poll_short<true>();

}  // namespace ccoll
