// SPDX-License-Identifier: Apache-2.0
#include "comm/collectives/collectives.hpp"

#include <algorithm>
#include <utility>

#include "engine/describe.hpp"

namespace ccoll {
namespace {

std::ptrdiff_t offset_of(std::size_t place) { return static_cast<std::ptrdiff_t>(place); }

}  // namespace

std::size_t Collectives::place_for(bool is_from_graph) const {
  if (!is_from_graph) return queue_.size();
  const auto held_back =
      std::ranges::find_if(queue_, [](const Pointer& each) { return each->is_held_back(); });
  return static_cast<std::size_t>(held_back - queue_.begin());
}

std::uint64_t Collectives::likely_number(std::size_t place) const {
  const auto before = std::count_if(queue_.begin(), queue_.begin() + offset_of(place),
                                    [](const Pointer& each) { return !each->is_numbered; });
  return sequence_ + static_cast<std::uint64_t>(before);
}

void Collectives::insert(std::size_t place, Pointer operation) {
  queue_.insert(queue_.begin() + offset_of(place), std::move(operation));
}

Collectives::Pointer Collectives::take_front() {
  auto front = std::move(queue_.front());
  queue_.pop_front();
  return front;
}

Status Collectives::alone(const Call& call) const {
  if (!blocking_) [[likely]]
    return {};
  return fail(ErrorKind::invalid_argument,
              "two threads are in blocking collectives of one communicator at once: {}{} has not "
              "returned, and {} was called; give each thread its own, by duplicate(), or put the "
              "calls in order",
              describe(blocking_->signature),
              blocking_->number ? fmt::format(" (call {})", *blocking_->number) : "",
              describe(signature_of(call)));
}

}  // namespace ccoll
