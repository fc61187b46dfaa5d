// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What a communicator counts.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace ccoll {

/// What went between a rank and one other, by one transport.
///
/// Counted are slices of collectives, as their schedules cut the data, and messages of send and
/// recv, each as one however it is cut; empty slices are not sent. Bytes are those of the data:
/// neither headers nor what connections and start-up exchange.
struct PeerCounters {
  int rank = 0;  ///< of the communicator; this rank itself, if it sends to itself
  std::string transport;
  std::uint64_t messages_sent = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t bytes_received = 0;
  /// How often a thread slept in a call of this rank that waited for that one. Who waits for less
  /// than it takes to fall asleep (some 0.1 ms) is not counted, nor what goes on in the background.
  std::uint64_t waits = 0;
  /// How long, in all. Of several that are awaited at once each is charged with all of it, and
  /// each with what it waits for itself: who is charged by others and has lost little is late.
  std::chrono::nanoseconds time_lost{0};
  /// Connections tried again, sends for which the socket had no room, and links that had to take
  /// another transport than the pair's best.
  std::uint64_t retries = 0;
  /// Failures that name that rank as the cause; where they name none, operations that were waiting
  /// for it when they failed; and receives that its messages did not fit.
  std::uint64_t errors = 0;
  friend bool operator==(const PeerCounters&, const PeerCounters&) = default;
};

/// Since the communicator was made. Those that are made from it count for themselves.
struct Counters {
  std::uint64_t collectives = 0;  ///< begun, those included that ccoll makes for itself (in split)
  /// Pinned memory of the host that calls in CUDA's streams have at the moment.
  std::uint64_t device_memory_bytes = 0;
  /// Memory of the GPU that collectives made by devices have, with what their flags and programs
  /// take; of a team, that of all ranks on it.
  std::uint64_t device_workspace_bytes = 0;
  /// By rank, then transport; only those with which there was anything.
  std::vector<PeerCounters> peers;
  friend bool operator==(const Counters&, const Counters&) = default;
};

}  // namespace ccoll
