// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Counts of a communicator.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace ccoll {

/// Traffic between a rank and one other, by one transport.
///
/// It counts slices of collectives, as their schedules cut the data. A message of send and recv
/// counts as one, however it is cut. Empty slices are not sent. Bytes are those of the data,
/// without headers and without the exchanges of connections and start-up.
struct PeerCounters {
  int rank = 0;  ///< of the communicator; this rank itself, if it sends to itself
  std::string transport;
  std::uint64_t messages_sent = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t bytes_received = 0;
  /// How often a thread slept in a call of this rank that waited for that one. Waits shorter than
  /// falling asleep takes (some 0.1 ms) are not counted, nor are those in the background.
  std::uint64_t waits = 0;
  /// How long it slept in all. If several ranks are awaited at once, each is charged with all of
  /// it. A rank that others charge, and that has lost little time itself, is late.
  std::chrono::nanoseconds time_lost{0};
  /// Connections tried again, sends for which the socket had no room, and links that had to take
  /// another transport than the pair's best.
  std::uint64_t retries = 0;
  /// Failures that name that rank as the cause; operations that waited for it when a failure that
  /// names none ended them; and receives that its messages did not fit.
  std::uint64_t errors = 0;
  friend bool operator==(const PeerCounters&, const PeerCounters&) = default;
};

/// Counts since the communicator was made. Communicators made from it count for themselves.
struct Counters {
  std::uint64_t collectives = 0;  ///< begun, including those that ccoll makes for itself (in split)
  /// Pinned host memory that calls in CUDA streams have at the moment.
  std::uint64_t device_memory_bytes = 0;
  /// GPU memory of collectives that devices make, including their flags and programs; for a team,
  /// of all ranks on that GPU.
  std::uint64_t device_workspace_bytes = 0;
  /// By rank, then transport; only those with which there was anything.
  std::vector<PeerCounters> peers;
  friend bool operator==(const Counters&, const Counters&) = default;
};

}  // namespace ccoll
