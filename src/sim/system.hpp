// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All that a simulation needs to know of programs and network, laid out flat and small: steps
/// without operands (of those only sizes matter to time), links with what they pass through.
/// Nothing in it changes while the simulation runs.
///
/// Where programs, network and sizes look alike from every `kept`-th rank on (rank r + kept does
/// what rank r does, with `kept` added to every peer), only the first `kept` ranks are held, and a
/// link stands for all links that are alike: it begins at one of the kept ranks, and ends at the
/// one that its real receiver looks like. All ranks of a class always do the same at the same time,
/// so what arrives at one is what one has sent.

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
  std::uint32_t blocks = 0;     ///< of its slice
  std::uint32_t longer = 0;     ///< how many of them are an element longer than the others
  std::uint32_t combined = 0;   ///< sources beyond the first
  bool lends = false;           ///< what it sends is read where it lies
  std::uint32_t after = kNone;  ///< number of the wait in System::waits
};

struct SimLane {
  Rank rank = 0;
  std::uint32_t stripe = 0;
  Span steps;
  std::uint32_t thread = kNone;  ///< resource: what runs its steps one by one
  Span targets;  ///< in System::targets: waits that its steps fulfil, in order of steps
};

/// A step that waits for one of another lane.
struct SimWait {
  std::uint32_t on_lane = 0;
  std::uint32_t on_step = 0;
  std::uint32_t lane = 0;  ///< who waits
};

struct SimLink {
  std::uint32_t from_lane = 0;
  std::uint32_t to_lane = kNone;
  std::uint32_t out = kNone;  ///< resources; none where the ranks themselves move the bytes
  std::uint32_t in = kNone;
  bool crosses = false;
  bool lends = false;            ///< any of its slices may be read in place
  std::uint32_t per_window = 0;  ///< messages
  std::uint32_t slots = 0;       ///< of which it ever uses so many
  std::uint64_t first_slot = 0;  ///< among all links'
  std::uint64_t tie_out = 0;     ///< who goes first of those that come at the same time
  std::uint64_t tie_in = 0;
};

/// Serves one after another.
struct SimResource {
  double bytes_per_s = 0;  ///< 0: of a thread
  bool shared = false;     ///< more than one lane or link can want it at once
  bool used = false;       ///< there is one that wants it at all
  std::uint32_t node = 0;  ///< of a thread: whose cores it takes
};

struct System {
  Network network;
  Rank size = 1;
  Rank kept = 1;
  std::uint32_t stripes = 1;
  std::uint64_t windows = 0;
  std::uint64_t whole_windows = 0;  ///< the first ones, which are all alike
  std::uint64_t slice_bytes = 0;    ///< of a whole window
  std::uint64_t longer_bytes = 0;   ///< of a block, and of one that is not longer
  std::uint64_t shorter_bytes = 0;
  std::uint32_t cores = 0;  ///< of each node; 0: as many as threads
  std::uint32_t nodes = 1;  ///< that kept ranks stand on
  std::uint64_t slots = 0;  ///< of all links
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
  /// Every resource is taken for shared: the plain way, in which all that happens is done in the
  /// order of time.
  bool all_shared = false;
  std::uint64_t max_bytes = std::uint64_t{4} << 30;
};

/// Fails with unsupported where it would take more than `max_bytes`, or longer than Picoseconds
/// hold, and with internal where a receive has no send.
Result<System> make_system(const Problem& problem, const Choice& choice, std::size_t elem_bytes,
                           const Network& network, const SystemOptions& options);

}  // namespace ccoll::sim
