// SPDX-License-Identifier: Apache-2.0
// The data part of the interpreter's step for one window: reads, combines, stores, sends.
#include <algorithm>
#include <cstring>

#include "engine/plan.hpp"
#include "engine/reading.hpp"
#include "kernels/stream.hpp"

namespace ccoll {
namespace {

void copy(std::byte* to, const std::byte* from, std::size_t bytes, bool streams) {
  if (to == from) return;
  if (streams)
    stream_copy(to, from, bytes);
  else
    std::memcpy(to, from, bytes);
}

}  // namespace

std::byte* Plan::shared_room(const ReadyStep& step, const std::byte* lent,
                             std::size_t bytes) const {
  if (step.sends.size() < 2) return nullptr;
  return step.sends[0]->shared_room(copying_.copier() == Copier::sender_always ? nullptr : lent,
                                    bytes);
}

Status Plan::run_step(ReadyLane& lane) {
  const auto& step = lane.steps[lane.position];
  const auto* const lent = lane.lends ? lane.lendable(step)[0].data : nullptr;
  std::byte* const shared = shared_room(step, lent, lane.bytes);
  if (lane.lends_input) send(step, header_of(lane), lent, shared);
  {
    Reading reading(step.receives);
    if (const auto gone = reading.begin(); gone < step.receives.size())
      return taken_back(step, gone);
    produce(lane, step, shared);
    if (custom_fold_ && custom_fold_->in_child()) {
      reading.abandon();
      return fail(ErrorKind::aborted, "this process is a child that the reduction '{}' forked",
                  run_->custom->description.name);
    }
    if (const auto gone = reading.end(); gone < step.receives.size()) return taken_back(step, gone);
  }
  if (custom_fold_ && custom_fold_->thrown())
    return fail(ErrorKind::aborted, "the reduction '{}' threw: {}", run_->custom->description.name,
                *custom_fold_->thrown());
  if (!lane.lends_input) send(step, header_of(lane), lent, shared);
  return {};
}

void Plan::send(const ReadyStep& step, const SliceHeader& header, const std::byte* lent,
                std::byte* shared) {
  if (!step.sends.empty()) pushed_ = owes_ = true;
  if (shared != nullptr && lent != nullptr) std::memcpy(shared, lent, header.bytes);
  for (auto* link : step.sends) {
    if (shared != nullptr && link->push_shared(header, shared)) continue;
    if (lent != nullptr) {
      link->lend(header, lent, copying_.copier());
      continue;
    }
    if (shared != nullptr) std::memcpy(link->room(header.bytes), shared, header.bytes);
    link->push(header);
  }
}

tl::unexpected<Failure> Plan::taken_back(const ReadyStep& step, std::size_t receive) const {
  return fail(ErrorKind::peer_lost, "rank {} withdrew its data, because its call had failed",
              step.from[receive]);
}

void Plan::produce(ReadyLane& lane, const ReadyStep& step, std::byte* shared) {
  const bool nothing_to_make = lane.lends && step.store.empty();
  if (nothing_to_make) return;
  std::byte* slot = nullptr;
  if (step.store.empty()) slot = shared != nullptr ? shared : step.sends[0]->room(lane.bytes);
  combine(lane, step, slot);
  if (lane.lends) return;
  const auto copy_to = [&](std::byte* room) {
    if (room == slot) return;
    if (slot != nullptr) return void(std::memcpy(room, slot, lane.bytes));
    for (const auto& piece : lane.store) {
      gather(piece, 0, piece.bytes, room);
      room += piece.bytes;
    }
  };
  if (shared != nullptr) return copy_to(shared);
  for (auto* link : step.sends) copy_to(link->room(lane.bytes));
}

void Plan::combine(ReadyLane& lane, const ReadyStep& step, std::byte* slot) {
  // The result, the own data and each received slice are the same bytes laid out differently: walk
  // them together, piece by piece. Rows pass through contiguous memory that stays in the cache.
  std::size_t local = 0, local_at = 0, store = 0, store_at = 0;
  for (std::size_t at = 0; at < lane.bytes;) {
    const auto* const own = step.local.empty() ? nullptr : &lane.local[local];
    const auto* const result = slot != nullptr ? nullptr : &lane.store[store];
    const bool is_from_rows = own != nullptr && own->has_rows();
    const bool is_to_rows = result != nullptr && result->has_rows();
    std::size_t bytes = lane.bytes - at;
    if (own != nullptr) bytes = std::min(bytes, own->bytes - local_at);
    if (result != nullptr) bytes = std::min(bytes, result->bytes - store_at);
    if (is_from_rows || is_to_rows) bytes = std::min(bytes, kRowsBytes);
    std::byte* const place = slot != nullptr ? slot + at : result->data + store_at;
    const bool is_copy = !step.combines;
    // A copy from rows needs no room between.
    std::byte* const own_room = is_copy && !is_to_rows ? place : room_.gathered();
    std::size_t count = 0;
    for (std::size_t i = 0; i <= step.receives.size(); i++) {
      if (own != nullptr && i == step.local_position) {
        if (is_from_rows) gather(*own, local_at, bytes, own_room);
        room_.sources()[count++] = is_from_rows ? own_room : own->data + local_at;
      }
      if (i < step.receives.size()) room_.sources()[count++] = step.receives[i]->front()->data + at;
    }
    if (is_to_rows && is_copy) {
      scatter(room_.sources()[0], bytes, *result, store_at);
    } else if (is_to_rows) {
      combine_piece(lane, step, count, room_.to_scatter(), bytes, false);
      scatter(room_.to_scatter(), bytes, *result, store_at);
    } else {
      combine_piece(lane, step, count, place, bytes, slot == nullptr && streams(lane, step));
    }
    at += bytes;
    if (own != nullptr && (local_at += bytes) == own->bytes) local++, local_at = 0;
    if (result != nullptr && (store_at += bytes) == result->bytes) store++, store_at = 0;
  }
}

void Plan::combine_piece(const ReadyLane& lane, const ReadyStep& step, std::size_t sources,
                         std::byte* out, std::size_t bytes, bool streams) {
  if (step.combines && custom_fold_)
    (*custom_fold_)(*run_->custom, run_->custom_for, room_.sources(), sources, out,
                    bytes / elem_bytes_);
  else if (step.combines && lane.lends && copying_.copier() == Copier::sender_aside &&
           room_.aside() != nullptr)
    combine_aside(step, sources, out, bytes);
  else if (step.combines)
    combine_(room_.sources(), sources, out, bytes / elem_bytes_, step.divisor);
  else
    copy(out, room_.sources()[0], bytes, streams);
}

void Plan::combine_aside(const ReadyStep& step, std::size_t sources, std::byte* out,
                         std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += lanes::StepRoom::kAsideBytes) {
    const auto piece = std::min(lanes::StepRoom::kAsideBytes, bytes - at);
    combine_(room_.sources(), sources, room_.aside(), piece / elem_bytes_, step.divisor);
    std::memcpy(out + at, room_.aside(), piece);
    for (std::size_t i = 0; i < sources; i++) room_.sources()[i] += piece;
  }
}

}  // namespace ccoll
