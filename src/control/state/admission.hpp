// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Decides whether a caller gets a connection, by its hello and what this rank knows. Strangers may
/// call: ranks of another job, of an earlier or a later start at the same store, or a second
/// process with the number of a known rank. Knows nothing of connections.

#include <cstdint>
#include <optional>

#include "control/news.hpp"
#include "control/state/roster.hpp"
#include "control/state/stage.hpp"
#include "control/wire.hpp"

namespace ccoll::control {

class Admission {
 public:
  /// The rank that is called.
  struct Callee {
    std::uint32_t rank;
    std::uint32_t size;
    std::uint64_t nonce;
    bool is_whole_job;  ///< Membership::is_whole_job
  };

  Admission(const Callee& self, const Roster& roster, const News& news, const Stage& stage)
      : self_(self), roster_(roster), news_(news), stage_(stage) {}

  /// Whether the caller means this rank, but counts another number of ranks.
  bool disagrees(const Hello& hello) const;
  /// The failure if the caller claims the rank of another process: this one, or one it has met.
  std::optional<Failure> claimed_twice(const Hello& hello) const;
  /// The answer to a hello; none means welcome. `is_connected`: the caller's rank has a connection.
  std::optional<Refusal> objection(const Hello& hello, bool is_connected) const;
  /// The answer to a question; none means welcome.
  std::optional<Refusal> reply(const Hello& hello) const;
  /// The claim makes this rank's job fail. False if an earlier one has done so.
  bool blame(const Failure& claim);

 private:
  /// The known process with the caller's rank, if it is not the caller's; else null.
  const PeerAddress* other_as(const Hello& hello) const;
  std::optional<Refusal> late_objection(const Hello& hello, bool is_connected) const;
  Refusal has_left() const;

  const Callee self_;
  const Roster& roster_;
  const News& news_;
  const Stage& stage_;
  std::optional<Failure> claim_;  ///< that made this rank's job fail
};

}  // namespace ccoll::control
