// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The queue pairs of one communicator's rank. A wait on one must also notice failures of the
/// others: a broken path shows at the sending end, which may be waiting only to receive. For
/// the links' user alone.

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
  /// Before a sleep: processes arrivals at all pairs, and arms those that are not armed.
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
