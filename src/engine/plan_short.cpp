// SPDX-License-Identifier: Apache-2.0
// Executes short calls: plans with one window, whose steps each have contiguous data. It computes
// once what the interpreter of plan.cpp finds out for every window. Tests verify that both do the
// same reads, writes, sends and receives.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "engine/plan.hpp"
#include "engine/reading.hpp"

namespace ccoll {
namespace {

/// Smaller slices are copied in less time than taking back a loan.
constexpr std::size_t kCopiedBytes = 4 << 10;

/// Copies `out` to the room that all links share, or to each link's own, unless it was made there.
void copy_to_rooms(const std::vector<SendLink*>& links, std::byte* shared, const std::byte* out,
                   std::size_t bytes) {
  const auto copy_to = [&](std::byte* room) {
    if (room != out) std::memcpy(room, out, bytes);
  };
  if (shared != nullptr) return copy_to(shared);
  for (auto* link : links) copy_to(link->room(bytes));
}

}  // namespace

bool Plan::place_short(const std::vector<BlockPlace>& parts, Place& place) const {
  for (const auto& part : parts) {
    const auto& extent = extents_.of(part);
    if (extent.elems == 0) continue;
    const bool scratch = part.buffer == Buffer::scratch;
    const auto offset = (scratch ? part.scratch_offset : extent.offset) * elem_bytes_;
    if (place.bytes == 0)
      place = {offset, 0, part.buffer};
    else if (place.buffer != part.buffer || place.offset + place.bytes != offset)
      return false;
    place.bytes += static_cast<std::uint32_t>(extent.elems * elem_bytes_);
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
      made.bytes = step.local.empty() ? made.store.bytes : made.local.bytes;
      made.elems = static_cast<std::uint32_t>(made.bytes / elem_bytes_);
      made.lend = step.store.empty() && !step.receives.empty() ? Lend::never : step.lend;
      made.divisor = step.divisor;
      made.combines = step.combines;
      made.own_first = step.local_position == 0;
      made.shape = shape_of(step, made);
      if (made.shape == Shape::gives) made.to = step.sends[0];
      if (made.shape == Shape::takes) made.from = step.receives[0];
    }
  }
  return true;
}

Plan::Shape Plan::shape_of(const ReadyStep& step, const ShortStep& made) {
  const auto receives = step.receives.size(), sends = step.sends.size();
  if (step.after || made.bytes == 0 || receives + sends != 1) return Shape::any;
  if (receives == 1) return Shape::takes;
  return made.bytes <= kCopiedBytes && !step.combines ? Shape::gives : Shape::any;
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
    for (; lane.window == 0 && lane.position < lane.short_steps.size(); lane.position++) {
      const auto& step = lane.short_steps[lane.position];
      const auto ran = step.shape == Shape::gives   ? give<observed>(lane, step)
                       : step.shape == Shape::takes ? take<observed>(lane, step)
                                                    : run_short<observed>(lane);
      if (ran == Polled::failed) return ran;
      if (ran == Polled::waits) break;
      moved = true;
    }
    if (lane.position == lane.short_steps.size()) lane.window = 1;
    finished &= lane.window > 0;
  }
  const auto flushed = flush();
  if (flushed == Polled::failed) return flushed;
  if (!finished || owes_) return moved ? Polled::moved : flushed;
  done_ = true;
  if constexpr (observed) observer_->ends();
  end_run();
  return Polled::done;
}

template <bool observed>
Plan::Polled Plan::give(ReadyLane& lane, const ShortStep& step) {
  if constexpr (observed) {
    if (step.to->has_room())
      tell_move(lane);
    else
      lane.lacked = 0;
  }
  const auto* const own = at(lane, step.local);
  const auto sent = step.to->send(header_of(step.bytes), own);
  if (sent == SendLink::Sent::no_room) return stuck(*step.to);
  if (sent == SendLink::Sent::waits) pushed_ = owes_ = true;
  if (step.store.bytes > 0)
    if (auto* const stored = at(lane, step.store); stored != own) copy_few(stored, own, step.bytes);
  if constexpr (observed) tell_run(lane, step.bytes);
  return Polled::moved;
}

template <bool observed>
Plan::Polled Plan::take(ReadyLane& lane, const ShortStep& step) {
  if (pushed_ && flush() == Polled::failed) return Polled::failed;
  auto& link = *step.from;
  std::byte* const stored = at(lane, step.store);
  if (!step.combines) link.offer(stored, step.bytes);
  const auto* const view = link.front();
  if (view == nullptr) {
    if constexpr (observed) lane.lacked = 0;
    return stuck(link);
  }
  const auto& whole = lane.steps[lane.position];
  if (!is_same(view->header, header_of(step.bytes))) [[unlikely]]
    return failed(mismatch(whole, 0, view->header, header_of(step.bytes)).value());
  if constexpr (observed) tell_move(lane);
  if (!link.begin_read()) return failed(taken_back(whole, 0).value());
  if (step.combines) {
    const bool has_own = step.local.bytes > 0;
    const auto* const own = has_own ? at(lane, step.local) : nullptr;
    const std::array sources =
        has_own && step.own_first ? std::array{own, view->data} : std::array{view->data, own};
    combine_(sources.data(), has_own ? 2 : 1, stored, step.elems, step.divisor);
  } else if (view->data != stored) {
    copy_few(stored, view->data, step.bytes);
  }
  if (!link.pop()) return failed(taken_back(whole, 0).value());
  if constexpr (observed) tell_run(lane, step.bytes);
  return Polled::moved;
}

template <bool observed>
Plan::Polled Plan::run_short(ReadyLane& lane) {
  const auto& step = lane.steps[lane.position];
  if (!after_holds(lane, step)) {
    if constexpr (observed) lane.lacked = ReadyLane::kStep;
    return Polled::waits;
  }
  const auto& made = lane.short_steps[lane.position];
  const auto bytes = made.bytes;
  if (bytes == 0) return Polled::moved;
  if (flush_before(step) == Polled::failed) return Polled::failed;
  std::byte* const own = made.local.bytes == 0 ? nullptr : at(lane, made.local);
  std::byte* const stored = made.store.bytes == 0 ? nullptr : at(lane, made.store);

  // Check all of them, even if the first is missing, so that all make progress.
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
    if (own != nullptr && i == step.local_position) room_.sources()[sources++] = own;
    const auto* view = step.receives[i]->front();
    if (view == nullptr) {
      if (stuck(*step.receives[i]) == Polled::failed) return Polled::failed;
      if constexpr (observed) lane.lacked = static_cast<std::uint32_t>(i);
      ready = false;
      continue;
    }
    if (auto good = check(step, i, view->header, header_of(bytes)); !good)
      return failed(std::move(good.error()));
    room_.sources()[sources++] = view->data;
  }
  if (!ready) return Polled::waits;
  if constexpr (observed) tell_move(lane);
  if (own != nullptr && step.local_position == step.receives.size())
    room_.sources()[sources++] = own;

  const bool lends =
      made.lend == Lend::always || (made.lend == Lend::if_separate && !run_->in_place);
  const bool lends_input = lends && this->lends_input(step);
  const std::byte* const lent = !lends ? nullptr : stored != nullptr && !lends_input ? stored : own;
  std::byte* const shared = shared_room(step, lent, bytes);
  if (lends_input) send(step, header_of(bytes), lent, shared);
  {
    Reading reading(step.receives);
    if (const auto gone = reading.begin(); gone < step.receives.size())
      return failed(taken_back(step, gone).value());
    std::byte* out = stored;
    if (out == nullptr && !lends) out = shared != nullptr ? shared : step.sends[0]->room(bytes);
    if (out != nullptr && step.combines && lends && copying_.copier() == Copier::sender_aside &&
        room_.aside() != nullptr)
      combine_aside(step, sources, out, bytes);
    else if (out != nullptr && step.combines)
      combine_(room_.sources(), sources, out, made.elems, step.divisor);
    else if (out != nullptr && out != room_.sources()[0])
      std::memcpy(out, room_.sources()[0], bytes);
    if (!lends) copy_to_rooms(step.sends, shared, out, bytes);
    if (const auto gone = reading.end(); gone < step.receives.size())
      return failed(taken_back(step, gone).value());
  }
  if (!lends_input) send(step, header_of(bytes), lent, shared);
  if constexpr (observed) tell_run(lane, bytes);
  return Polled::moved;
}

template Plan::Polled Plan::poll_short<false>();
template Plan::Polled Plan::poll_short<true>();

}  // namespace ccoll
