// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The reading of a step's slices, which ends whatever happens meanwhile.

#include <cstddef>
#include <vector>

#include "transport/link.hpp"

namespace ccoll {

/// Slices that are being read. Those begun end with it, whatever happens meanwhile, or their owners
/// could never take their memory back.
class Reading {
 public:
  explicit Reading(const std::vector<ReceiveLink*>& links) : links_(links) {}
  ~Reading() { static_cast<void>(end()); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  /// How many could be begun.
  std::size_t begin() {
    while (begun_ < links_.size() && links_[begun_]->begin_read()) begun_++;
    return begun_;
  }
  /// What is begun stays so: in a forked child it is the parent's.
  void abandon() { ended_ = begun_; }
  /// Ends what was begun. How many, from the first on, their owners had not taken back meanwhile:
  /// what was computed from another is not to be used.
  std::size_t end() {
    if (begun_ - ended_ > 1)
      for (auto i = ended_; i < begun_; i++) links_[i]->end_read();
    std::size_t good = ended_;
    for (; ended_ < begun_; ended_++)
      if (links_[ended_]->pop() && good == ended_) good++;
    return good;
  }

 private:
  const std::vector<ReceiveLink*>& links_;
  std::size_t begun_ = 0;
  std::size_t ended_ = 0;
};

}  // namespace ccoll
