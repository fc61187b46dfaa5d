// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A queue of events in the order of time, for a simulation that never adds an event before the
/// time taken last: a radix heap (Ahuja, Mehlhorn, Orlin and Tarjan 1990). An event moves at most
/// 63 times for any number of events, mostly within near memory.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "core/result.hpp"

namespace ccoll::sim {

/// Time since the simulation's begin. 64 bits hold a hundred days.
using Picoseconds = std::int64_t;

/// `Event` has a `time`.
template <typename Event>
class TimeQueue {
 public:
  bool empty() const { return size_ == 0; }

  void push(const Event& event) {
    CCOLL_CHECK(event.time >= last_, "{} after {}", event.time, last_);
    buckets_[bucket_of(event.time)].push_back(event);
    ++size_;
  }

  /// Takes all events of the earliest time, in no order.
  void take_earliest(std::vector<Event>& taken) {
    taken.clear();
    if (buckets_[0].empty()) refill();
    taken.swap(buckets_[0]);
    size_ -= taken.size();
  }

  template <typename Visit>
  void for_each(Visit visit) const {
    for (const auto& bucket : buckets_)
      for (const Event& event : bucket) visit(event);
  }

  /// Shifts all times; `change` adjusts the rest of each event.
  template <typename Change>
  void shift(Picoseconds by, Change change) {
    std::vector<Event> all;
    for (auto& bucket : buckets_) {
      all.insert(all.end(), bucket.begin(), bucket.end());
      bucket.clear();
    }
    last_ += by;
    size_ = 0;
    for (Event& event : all) {
      event.time += by;
      change(event);
      push(event);
    }
  }

 private:
  /// The highest bit in which it differs from the last time gives the bucket.
  std::size_t bucket_of(Picoseconds time) const {
    return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(time ^ last_)));
  }

  void refill() {
    std::size_t first = 1;
    while (first < buckets_.size() && buckets_[first].empty()) ++first;
    CCOLL_CHECK(first < buckets_.size(), "an empty queue");
    const auto& bucket = buckets_[first];
    last_ = std::ranges::min_element(bucket, {}, &Event::time)->time;
    moving_.swap(buckets_[first]);
    for (const Event& event : moving_) buckets_[bucket_of(event.time)].push_back(event);
    moving_.clear();
  }

  std::array<std::vector<Event>, 65> buckets_;
  std::vector<Event> moving_;
  std::size_t size_ = 0;
  Picoseconds last_ = 0;
};

}  // namespace ccoll::sim
