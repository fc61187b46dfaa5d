// SPDX-License-Identifier: Apache-2.0
// What the interpreter does with the data of one step of one window: reads, combines, stores,
// sends.
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
  return step.sends[0]->shared_room(copier_ == Copier::sender_always ? nullptr : lent, bytes);
}

Status Plan::run_step(ReadyLane& lane) {
  const auto& step = lane.steps[lane.position];
  std::byte* const shared =
      shared_room(step, lane.lends ? lane.lendable(step)[0].data : nullptr, lane.bytes);
  if (lane.lends_input) send(lane, step, shared);
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
  if (!lane.lends_input) send(lane, step, shared);
  return {};
}

void Plan::send(const ReadyLane& lane, const ReadyStep& step, std::byte* shared) {
  const auto* const lent = lane.lends ? lane.lendable(step)[0].data : nullptr;
  send(step, header_of(lane), lent, shared);
}

void Plan::send(const ReadyStep& step, const SliceHeader& header, const std::byte* lent,
                std::byte* shared) {
  if (!step.sends.empty()) pushed_ = owes_ = true;
  if (shared != nullptr && lent != nullptr) std::memcpy(shared, lent, header.bytes);
  for (auto* link : step.sends) {
    if (shared != nullptr && link->push_shared(header, shared)) continue;
    if (lent != nullptr) {
      link->lend(header, lent, copier_);
      continue;
    }
    if (shared != nullptr) std::memcpy(link->room(header.bytes), shared, header.bytes);
    link->push(header);
  }
}

tl::unexpected<Failure> Plan::taken_back(const ReadyStep& step, std::size_t receive) const {
  return fail(ErrorKind::peer_lost, "rank {} took its data back: its call had failed",
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
      std::memcpy(room, piece.data, piece.bytes);
      room += piece.bytes;
    }
  };
  if (shared != nullptr) return copy_to(shared);
  for (auto* link : step.sends) copy_to(link->room(lane.bytes));
}

void Plan::combine(ReadyLane& lane, const ReadyStep& step, std::byte* slot) {
  // The result, the own data and each received slice are the same bytes laid out differently: walk
  // them together, piece by piece.
  std::size_t local = 0, local_at = 0, store = 0, store_at = 0;
  for (std::size_t at = 0; at < lane.bytes;) {
    std::size_t bytes = lane.bytes - at;
    if (!step.local.empty()) bytes = std::min(bytes, lane.local[local].bytes - local_at);
    if (slot == nullptr) bytes = std::min(bytes, lane.store[store].bytes - store_at);
    std::size_t count = 0;
    for (std::size_t i = 0; i <= step.receives.size(); i++) {
      if (!step.local.empty() && i == step.local_position)
        sources_[count++] = lane.local[local].data + local_at;
      if (i < step.receives.size()) sources_[count++] = step.receives[i]->front()->data + at;
    }
    std::byte* out = slot != nullptr ? slot + at : lane.store[store].data + store_at;
    if (step.combines && custom_fold_)
      (*custom_fold_)(*run_->custom, run_->custom_for, sources_.data(), count, out,
                      bytes / elem_bytes_);
    else if (step.combines && lane.lends && copier_ == Copier::sender_aside && aside_)
      combine_aside(step, count, out, bytes);
    else if (step.combines)
      combine_(sources_.data(), count, out, bytes / elem_bytes_, step.divisor);
    else
      copy(out, sources_[0], bytes, slot == nullptr && streams(lane, step));
    at += bytes;
    if (!step.local.empty() && (local_at += bytes) == lane.local[local].bytes)
      local++, local_at = 0;
    if (slot == nullptr && (store_at += bytes) == lane.store[store].bytes) store++, store_at = 0;
  }
}

void Plan::combine_aside(const ReadyStep& step, std::size_t sources, std::byte* out,
                         std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kAsideBytes) {
    const auto piece = std::min(kAsideBytes, bytes - at);
    combine_(sources_.data(), sources, aside_.get(), piece / elem_bytes_, step.divisor);
    std::memcpy(out + at, aside_.get(), piece);
    for (std::size_t i = 0; i < sources; i++) sources_[i] += piece;
  }
}

}  // namespace ccoll
