// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's part that has its operations under way, and the links that they use.

#include <memory>
#include <string>
#include <vector>

#include "comm/collectives/collectives.hpp"
#include "comm/groups/self.hpp"
#include "comm/messages/messages.hpp"
#include "comm/progress/operation.hpp"
#include "comm/progress/owner_flag.hpp"
#include "comm/streams/stream_calls.hpp"
#include "engine/links.hpp"

namespace ccoll {

class Waiter;

class UnderWay {
 public:
  UnderWay(const Self& self, Progress& progress, std::shared_ptr<Waiter> waiter);

  /// By its own remarks.
  StreamCalls& in_streams() { return in_streams_; }
  const StreamCalls& in_streams() const { return in_streams_; }

  // For the holder of the owner flag:

  Collectives& collectives(Owned /*owned*/) { return collectives_; }
  const Collectives& collectives(Owned /*owned*/) const { return collectives_; }
  Messages& messages(Owned /*owned*/) { return messages_; }
  const Messages& messages(Owned /*owned*/) const { return messages_; }
  LinkTable& links(Owned /*owned*/) { return links_; }
  const LinkTable& links(Owned /*owned*/) const { return links_; }

  bool busy(Owned owned) const {
    return !collectives_.empty() || messages_.busy() || in_streams_.busy(owned);
  }
  /// Whether nothing is, and no thread waits for a collective.
  bool is_idle(Owned owned) const { return !busy(owned) && !collectives_.is_blocking(); }
  bool has_reached() const { return in_streams_.has_reached(); }
  /// As Progress::Operations::awaited().
  std::vector<Rank> awaited(Owned owned, const Work::State& work) const noexcept;
  /// The name of the operation that the others wait behind; empty if there is none.
  std::string name_of_first(Owned owned) const;

  /// Ends all with `failure`, for good, and takes back all memory that was lent or offered.
  /// `only_own`: what devices make ends only if a call of this rank is among it.
  void end(Owned owned, const Failure& failure, bool only_own);
  /// In a forked child, whose links are the parent's: ends the operations, and touches no more.
  void end_copy(Owned owned, const Failure& failure);

 private:
  void end_collectives(const Failure& failure);

  const Self& self_;
  LinkTable links_;
  Collectives collectives_;
  Messages messages_;
  StreamCalls in_streams_;
};

}  // namespace ccoll
