// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All that a simulation needs of programs and network, laid out flat and small: steps without
/// operands (only their sizes matter to time), and links with the resources that they pass through.
/// Nothing in it changes while the simulation runs.
///
/// Programs, network and sizes may repeat from every `kept`-th rank on: rank r + kept does what
/// rank r does, with `kept` added to every peer. Then only the first `kept` ranks are held, and a
/// link stands for all links that are alike. It begins at a kept rank, and ends at the one that
/// stands for its real receiver. All ranks of a class do the same at the same time, so one sends
/// what another of the class receives.

#include <cstdint>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "core/result.hpp"
#include "sim/network.hpp"
#include "sim/time_queue.hpp"

namespace ccoll::sim {

inline constexpr std::uint32_t kNone = UINT32_MAX;

struct Span {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t size() const { return end - begin; }
};

struct SimStep {
  Span receives;                ///< in System::receives
  Span sends;                   ///< in System::sends
  std::uint32_t blocks = 0;     ///< blocks of its slice
  std::uint32_t longer = 0;     ///< how many of them are an element longer than the others
  std::uint32_t combined = 0;   ///< sources beyond the first
  bool lends = false;           ///< its sends are read in place
  std::uint32_t after = kNone;  ///< number of the wait in System::waits
};

struct SimLane {
  Rank rank = 0;
  std::uint32_t stripe = 0;
  Span steps;
  std::uint32_t thread = kNone;  ///< the resource that runs its steps one by one
  Span targets;  ///< in System::targets: waits that its steps end, in order of steps
};

/// A step that waits for one of another lane.
struct SimWait {
  std::uint32_t on_lane = 0;
  std::uint32_t on_step = 0;
  std::uint32_t lane = 0;  ///< the lane that waits
};

struct SimLink {
  std::uint32_t from_lane = 0;
  std::uint32_t to_lane = kNone;
  std::uint32_t out = kNone;  ///< resources; none if the ranks themselves move the bytes
  std::uint32_t in = kNone;
  bool crosses = false;
  bool lends = false;            ///< any of its slices may be read in place
  std::uint32_t per_window = 0;  ///< messages
  std::uint32_t slots = 0;       ///< number of slots that it ever uses
  std::uint64_t first_slot = 0;  ///< index among all links' slots
  std::uint64_t tie_out = 0;     ///< order of messages that come at the same time
  std::uint64_t tie_in = 0;
};

/// A resource serves its users one after another.
struct SimResource {
  double bytes_per_s = 0;  ///< 0 for a thread
  bool shared = false;     ///< more than one lane or link can want it at once
  bool used = false;       ///< whether anything uses it
  std::uint32_t node = 0;  ///< node of a thread, whose cores it uses
};

struct System {
  Network network;
  Rank size = 1;
  Rank kept = 1;
  std::uint32_t stripes = 1;
  std::uint64_t windows = 0;
  std::uint64_t whole_windows = 0;  ///< the first windows, which are all alike
  std::uint64_t slice_bytes = 0;    ///< size of a slice in a whole window
  std::uint64_t longer_bytes = 0;   ///< size of a longer block, and of one that is not
  std::uint64_t shorter_bytes = 0;
  std::uint32_t cores = 0;  ///< cores of each node; 0: as many as threads
  std::uint32_t nodes = 1;  ///< nodes with kept ranks
  std::uint64_t slots = 0;  ///< number of all links' slots
  std::vector<SimLane> lanes;
  std::vector<SimStep> steps;
  std::vector<SimLink> links;
  std::vector<std::uint32_t> receives;  ///< links
  std::vector<std::uint32_t> sends;     ///< links
  std::vector<SimWait> waits;
  std::vector<std::uint32_t> targets;  ///< waits
  std::vector<SimResource> resources;

  /// Bytes of the step's slice in that window.
  std::uint64_t bytes(const SimStep& step, std::uint64_t window) const;
};

struct SystemOptions {
  Rank kept = 1;  ///< a divisor of the problem's size
  /// Every resource counts as shared: this is the plain way, in which everything happens in the
  /// order of time.
  bool all_shared = false;
  std::uint64_t max_bytes = std::uint64_t{4} << 30;
};

/// Fails with unsupported if it needs more than `max_bytes`, or more time than Picoseconds hold,
/// and with internal if a receive has no send.
Result<System> make_system(const Problem& problem, const Choice& choice, std::size_t elem_bytes,
                           const Network& network, const SystemOptions& options);

}  // namespace ccoll::sim
