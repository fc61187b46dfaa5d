// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The collectives of a communicator that are under way.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "comm/call/call.hpp"
#include "comm/collectives/collective_operation.hpp"

namespace ccoll {

/// Collectives run one after another, in the order of the queue. Each has a number, by which other
/// ranks know it. A thread may be blocked in one of them at a time. Used by the holder of the owner
/// flag.
class Collectives {
 public:
  using Pointer = std::shared_ptr<CollectiveOperation>;
  /// A collective in which a thread is blocked.
  struct Blocking {
    Signature signature;
    std::optional<std::uint64_t> number;  ///< none until its stream has reached it
  };
  /// The thread that holds the owner flag is blocked in a collective while this exists.
  class Blocked {
   public:
    Blocked(Collectives& collectives, const Blocking& blocking) : collectives_(collectives) {
      collectives_.block(blocking);
    }
    ~Blocked() { collectives_.unblock(); }
    Blocked(const Blocked&) = delete;
    Blocked& operator=(const Blocked&) = delete;

   private:
    Collectives& collectives_;
  };

  bool empty() const { return queue_.empty(); }
  std::size_t size() const { return queue_.size(); }
  auto begin() const { return queue_.begin(); }
  auto end() const { return queue_.end(); }
  const Pointer& front() const { return queue_.front(); }
  /// The first one, if it has started: only this one can move. Null otherwise.
  const CollectiveOperation* started() const {
    return !queue_.empty() && queue_.front()->started ? queue_.front().get() : nullptr;
  }
  /// After a failure: whether the first one has only found that ranks' counts differ.
  bool counts_differ() const { return !queue_.empty() && queue_.front()->plan->counts_differ(); }

  /// The number of the next collective.
  std::uint64_t next_number() const { return sequence_; }
  std::uint64_t take_number() { return sequence_++; }
  /// The number of calls that are over on the host's side. One that was refused before it began has
  /// been recorded, but has no number.
  std::uint64_t finished() const {
    return queue_.empty() || !queue_.front()->is_numbered ? sequence_ : first_open();
  }
  /// The number of the first call that is not over.
  std::uint64_t first_open() const {
    return queue_.empty() ? sequence_ : queue_.front()->run.sequence;
  }

  /// The place of a new call: a graph's call goes before those that streams hold back.
  std::size_t place_for(bool is_from_graph) const;
  /// Whether all before that place have their numbers, so that a call there can take one.
  bool is_numbered_before(std::size_t place) const {
    return place == 0 || queue_[place - 1]->is_numbered;
  }
  /// The number that a call there will have, unless others come before it.
  std::uint64_t likely_number(std::size_t place) const;
  void insert(std::size_t place, Pointer operation);
  void push_back(Pointer operation) { queue_.push_back(std::move(operation)); }
  Pointer take_front();
  /// Ends all; `failure_of` returns the failure for the operation.
  template <typename FailureOf>
  void end_all(FailureOf failure_of) {
    for (auto& operation : queue_) {
      operation->failure = failure_of(*operation);
      operation->end();
    }
    queue_.clear();
  }

  bool is_blocking() const { return blocking_.has_value(); }
  /// Fails if a thread is blocked in a collective, and `call` is another.
  Status alone(const Call& call) const;
  /// A thread is blocked until unblock(); meanwhile it may release the owner flag.
  void block(const Blocking& blocking) { blocking_ = blocking; }
  void unblock() { blocking_.reset(); }

 private:
  std::deque<Pointer> queue_;
  std::uint64_t sequence_ = 0;  ///< of the next collective
  std::optional<Blocking> blocking_;
};

}  // namespace ccoll
