// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The parts of all ranks of a communicator, moved on in one thread. In place of control
/// connections, the job itself carries what one rank tells the others. Its time is that of Parts.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "comm/parts.hpp"

namespace ccoll::test {

class PartsOfJob {
 public:
  /// The ranks have these numbers in the job. Transports remember ended communicators, so each job
  /// of a program has a number of its own.
  PartsOfJob(const std::vector<std::uint32_t>& group, std::uint64_t communicator,
             const CommunicatorOptions& options = {})
      : group_(group), communicator_(communicator), floods_told_(group.size()) {
    for (Rank rank = 0; rank < group.size(); rank++)
      ranks_.push_back(std::make_unique<Parts>(rank, group, communicator, options));
  }

  Parts& operator[](Rank rank) { return *ranks_.at(rank); }

  /// Moves all ranks on, and carries their news, until nothing is left to do.
  void settle() {
    for (bool moved = true; moved;) {
      moved = false;
      for (const auto& rank : ranks_) moved = (rank && rank->round()) || moved;
      moved = carry_news() || moved;
    }
  }
  /// Lets time pass in steps of 1 ms. After each all ranks look at their limits, and settle.
  void spend(std::chrono::milliseconds time) {
    for (auto left = time; left.count() > 0; left--) {
      pass(std::chrono::milliseconds(1));
      for (const auto& rank : ranks_)
        if (rank) rank->look();
      settle();
    }
  }
  /// The rank leaves the communicator, but not the job: it still answers whether it has left.
  void leave(Rank rank) {
    settle();
    const auto transports = ranks_.at(rank)->self.member()->transports();
    ranks_[rank].reset();
    transports->forget(communicator_);
  }

 private:
  bool carry_news() {
    bool carried = false;
    for (Rank from = 0; from < ranks_.size(); from++) {
      if (!ranks_[from]) continue;
      auto& control = *ranks_[from]->control;
      for (const auto& [waiting, to] : std::exchange(control.published, {})) {
        for (const auto job_rank : to) tell(from, job_rank, waiting);
        carried = true;
      }
      for (; floods_told_[from] < control.floods.size(); carried = true) {
        const auto flooded = control.floods[floods_told_[from]++];
        for (Rank rank = 0; rank < ranks_.size(); rank++)
          if (ranks_[rank] && rank != from)
            ranks_[rank]->news.failed(flooded.communicator, flooded.failure);
      }
    }
    return carried;
  }
  void tell(Rank from, std::uint32_t job_rank, const Waiting& waiting) {
    const auto& to =
        ranks_[static_cast<std::size_t>(std::ranges::find(group_, job_rank) - group_.begin())];
    if (!to) {
      if (waiting.signature.kind == kAsksClosed)
        ranks_[from]->news.compare(job_rank, {communicator_, 0, {.kind = kHasClosed}});
    } else if (const auto different = to->news.compare(group_[from], waiting)) {
      to->news.failed(communicator_, *different);
      to->control->flood(communicator_, *different);
    }
  }

  const std::vector<std::uint32_t> group_;
  const std::uint64_t communicator_;
  std::vector<std::unique_ptr<Parts>> ranks_;  ///< null: it has left
  std::vector<std::size_t> floods_told_;       ///< of each rank's, how many the others know
};

}  // namespace ccoll::test
