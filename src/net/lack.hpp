// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Lack of descriptors or memory: attempts that fail for it, and the one descriptor that is kept
/// for it.

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include "core/deadline.hpp"
#include "core/result.hpp"
#include "system/file_descriptor.hpp"
#include "system/locks.hpp"

namespace ccoll::net {

/// How long a process may lack descriptors before it gives up what needs them.
inline constexpr std::chrono::milliseconds kLackLimit{2000};

/// Watches one series of attempts, which fail for lack of descriptors or memory. That may pass, so
/// they are repeated, but not until the time limit of all: the reason would come too late for the
/// other ranks. Not thread-safe.
class Lack {
 public:
  using Time = Clock::time_point;

  /// An attempt has failed. Returns whether it lacks something, and at the time `next` of the next
  /// attempt all attempts will have done so for kLackLimit.
  bool lasts(const Failure& failure, Time now, Time next) {
    const bool lacks = failure.kind == ErrorKind::exhausted;
    since_ = lacks ? std::min(since_, now) : Time::max();
    return lacks && next - since_ >= kLackLimit;
  }
  /// The same if the next attempt follows at once.
  bool lasts(const Failure& failure, Time now) { return lasts(failure, now, now); }

 private:
  Time since_ = Time::max();
};

/// A descriptor that a process keeps while it listens. If all others are in use, it lets a peer in
/// to hear of that; otherwise the peer would wait until its time limit. Thread-safe.
class Spare {
 public:
  /// This process's spare, shared by all that hold it.
  static std::shared_ptr<Spare> of_process();

  /// Closes it to make room for a connection. False if it is not there.
  bool spend();
  /// Opens it again if needed. Returns whether it is there.
  bool restore();

  /// A connection came, and there was no spare for it. Lasts until the spare can be opened again.
  void starve(Clock::time_point now = Clock::now());
  /// Whether that has lasted for `limit`.
  bool starves(std::chrono::milliseconds limit, Clock::time_point now);

 private:
  struct State {
    FileDescriptor descriptor;
    std::optional<Clock::time_point> starves_since;
  };
  Guarded<State> state_;
};

/// Whether descriptors are left for a connection that was let in. If not, the caller must say so to
/// the peer and close the connection, which restores the spare.
bool has_descriptors_left();

/// The failure of a process that listens and has had no descriptor for any connection for `limit`.
std::optional<Failure> lack_of_descriptors(std::chrono::milliseconds limit,
                                           Clock::time_point now = Clock::now());

}  // namespace ccoll::net
