// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Whether a step may run, and how it runs, for any places of its data. They are a template's
/// parameter, so that the short executor pays for nothing that only the interpreter needs.

#include <cstddef>

#include "engine/plan/step_executor.hpp"

namespace ccoll {

inline bool is_same(const SliceHeader& a, const SliceHeader& b) {
  return a.sequence == b.sequence && a.signature == b.signature && a.bytes == b.bytes;
}

template <typename Places>
Polled StepExecutor::may_run(Places& places) {
  const auto& receives = places.receives();
  const auto& sends = places.sends();
  places.offer();
  bool ready = true;
  // Look at all of them, even if the first is missing, so that all make progress.
  for (std::size_t i = 0; i < receives.size(); i++) {
    const auto* const view = receives[i]->front();
    if (view == nullptr) {
      if (stuck(*receives[i]) == Polled::failed) return Polled::failed;
      places.lacks(i);
      ready = false;
      continue;
    }
    if (!is_same(view->header, places.header())) [[unlikely]]
      return mismatch(places.run(), places.step(), i, view->header, places.header());
    places.add_source(i, view->data);
  }
  const bool has_all = ready;
  for (std::size_t i = 0; i < sends.size(); i++) {
    if (sends[i]->has_room()) continue;
    // If the kernel has yet to take its slices, flush() moves them on.
    if (stuck(*sends[i]) == Polled::failed) return Polled::failed;
    // A slice that has not come explains more: room comes once its sender goes on.
    if (has_all) places.lacks(receives.size() + i);
    ready = false;
  }
  return ready ? Polled::moved : Polled::waits;
}

template <typename Places>
Polled StepExecutor::execute(Places& places) {
  const auto receives = places.receives().size();
  // Slices just pushed go first: a peer may be waiting, and looking may take a system call.
  if (pushed_ && receives > 0 && flush() == Polled::failed) return Polled::failed;
  if (const auto may = may_run(places); may != Polled::moved) return may;
  places.begin();
  const std::byte* const lent = places.lent();
  std::byte* shared = nullptr;
  if (places.sends().size() > 1)
    shared = places.sends()[0]->shared_room(
        places.copier() == Copier::sender_always ? nullptr : lent, places.bytes());
  if (places.lends_input()) send(places.step(), places.header(), lent, shared, places.copier());
  {
    auto reading = places.reading();
    if (const auto gone = reading.begin(); gone < receives) return taken_back(places.step(), gone);
    make(places, shared);
    if constexpr (Places::kMayFold) {
      if (places.combiner().in_child()) {
        reading.abandon();
        return failed(places.combiner().fold_failure(places.run()));
      }
    }
    if (const auto gone = reading.end(); gone < receives) return taken_back(places.step(), gone);
  }
  if constexpr (Places::kMayFold)
    if (places.combiner().has_thrown()) return failed(places.combiner().fold_failure(places.run()));
  if (!places.sends().empty() && !places.lends_input())
    send(places.step(), places.header(), lent, shared, places.copier());
  places.end();
  return Polled::moved;
}

template <typename Places>
void StepExecutor::make(Places& places, std::byte* shared) {
  const auto& sends = places.sends();
  if (places.lends() && !places.stores()) return;
  std::byte* slot = nullptr;
  if (!places.stores()) slot = shared != nullptr ? shared : sends[0]->room(places.bytes());
  places.make(slot);
  if (places.lends()) return;
  const auto copy_to = [&](std::byte* room) {
    if (room != slot) places.copy_made(slot, room);
  };
  if (shared != nullptr) return copy_to(shared);
  for (auto* link : sends) copy_to(link->room(places.bytes()));
}

}  // namespace ccoll
