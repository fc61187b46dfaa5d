// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A guard around the reads of a step's slices.

#include <cstddef>
#include <span>

#include "transport/link.hpp"

namespace ccoll {

/// The slices being read. The destructor ends all reads that have begun, or their owners could
/// never take their memory back.
class Reading {
 public:
  explicit Reading(std::span<ReceiveLink* const> links) : links_(links) {}
  ~Reading() { static_cast<void>(end()); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  /// Returns the number of reads that could begin.
  std::size_t begin() {
    while (begun_ < links_.size() && links_[begun_]->begin_read()) begun_++;
    return begun_;
  }
  /// Leaves the reads open: in a forked child they are the parent's.
  void abandon() { ended_ = begun_; }
  /// Ends the reads. Returns how many slices, from the first, were not taken back meanwhile;
  /// discard results from any other.
  std::size_t end() {
    if (begun_ - ended_ > 1)
      for (auto i = ended_; i < begun_; i++) links_[i]->end_read();
    std::size_t good = ended_;
    for (; ended_ < begun_; ended_++)
      if (links_[ended_]->pop() && good == ended_) good++;
    return good;
  }

 private:
  const std::span<ReceiveLink* const> links_;
  std::size_t begun_ = 0;
  std::size_t ended_ = 0;
};

/// The same for one slice, where nothing in between throws.
class SingleReading {
 public:
  explicit SingleReading(ReceiveLink& link) : link_(link) {}

  std::size_t begin() { return link_.begin_read() ? 1 : 0; }
  std::size_t end() { return link_.pop() ? 1 : 0; }

 private:
  ReceiveLink& link_;
};

}  // namespace ccoll
