// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Finds ranks that wait for each other in a cycle, through calls of different communicators.
/// Shortly before its patience ends, a rank asks the ranks for which it waits, and they pass the
/// question on to those for which they wait. If it comes back, the asker hears its path, as a
/// reason for its error. That ends nothing: another thread of one of these ranks might still make
/// the missing call.
///
/// A question takes at most kHops hops and kWays ways from each, and no rank passes it on twice for
/// the same wait. Each call that is about to fail costs few messages, once. Each hop's words travel
/// with it; if they get too long, later ranks are only named, then only counted.
///
/// This is one rank's part. It knows nothing of connections: it returns the questions to send.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "control/control.hpp"
#include "control/wire.hpp"

namespace ccoll::control {

class Cycles {
 public:
  using Questions = std::vector<Publication>;

  explicit Cycles(std::uint32_t self) : self_(self) {}

  /// Replaces the communicator's waits.
  void set_waits(std::uint64_t communicator, std::vector<OpenWait> waits);
  /// The questions for whether this rank waits in that call in a cycle; none if it does not wait.
  Questions seek(std::uint64_t communicator, std::uint64_t sequence);

  /// A question that has come to this rank. `has_begun`: this rank has begun the call in question.
  /// If it is another rank's: those to pass it on to.
  Questions pass_on(const Publication& asked, bool has_begun);
  /// If it is this rank's own: the call that waits in a cycle, and its path.
  struct Found {
    std::uint64_t communicator;
    std::uint64_t sequence;
    std::string path;
  };
  std::optional<Found> come_back(const Publication& asked, bool has_begun);

 private:
  /// Adds the question to the ranks for which this rank waits in `wait`, first to the asker.
  void ask_along(const Publication& asked, const OpenWait& wait, Questions& questions) const;

  const std::uint32_t self_;
  std::vector<OpenWait> waits_;
  std::uint32_t asked_ = 0;                              ///< questions of this rank
  using Call = std::pair<std::uint64_t, std::uint64_t>;  ///< (communicator, sequence)
  std::map<std::uint32_t, Call> sought_;                 ///< by the question's number
  /// A question that was passed on: the asker, its number, and the call in question.
  using Passed = std::tuple<std::uint32_t, std::uint32_t, std::uint64_t, std::uint64_t>;
  std::set<Passed> passed_;
  std::deque<Passed> passed_in_order_;  ///< oldest first
};

}  // namespace ccoll::control
