// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The queue pairs of one communicator's rank. Who waits for one of them must hear of what happens
/// to the others: a path that is broken shows at the end that sends, which may wait only for what
/// it receives. Used by the holder of the owner flag.

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "core/result.hpp"

namespace ccoll::verbs {

class QueuePair;

class CompletionGroup {
 public:
  void add(QueuePair& pair) { pairs_.push_back(&pair); }
  void remove(QueuePair& pair) { std::erase(pairs_, &pair); }
  /// Before a sleep: sees what has come to any of them, and arms those that are not.
  void look();
  /// The first failure of a link to that rank.
  const Failure* failure_of(std::uint32_t rank) const {
    const auto found = failures_.find(rank);
    return found == failures_.end() ? nullptr : &found->second;
  }
  void has_failed(std::uint32_t rank, const Failure& failure) { failures_.emplace(rank, failure); }

 private:
  std::vector<QueuePair*> pairs_;
  std::map<std::uint32_t, Failure> failures_;  // by rank of the job
};

}  // namespace ccoll::verbs
