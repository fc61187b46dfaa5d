// SPDX-License-Identifier: Apache-2.0
#include "core/patience.hpp"

namespace ccoll {
namespace {

Patience& patience() {
  thread_local Patience patience;
  return patience;
}

}  // namespace

const Patience& Patience::of_thread() { return patience(); }

Status Patience::is_left() const {
  return stop.stop_requested() ? tl::unexpected(ended_from_outside()) : Status();
}

Failure ended_from_outside() {
  return {ErrorKind::aborted, "start-up was ended by its stop token (start_stop)", std::nullopt};
}

HavingPatience::HavingPatience(Patience new_one)
    : before_(std::exchange(patience(), std::move(new_one))) {}

HavingPatience::~HavingPatience() { patience() = std::move(before_); }

}  // namespace ccoll
