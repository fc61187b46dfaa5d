// SPDX-License-Identifier: Apache-2.0
#include "algorithms/cost.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace ccoll {
namespace {

/// Where everyone talks to everyone (or to the root), links beyond these make opening, polling and
/// switching between them dearer than a message over a warm one.
constexpr double kCheapLinks = 16;
constexpr double kDearLinkSteps = 4;  ///< what each further link costs, in steps

/// Another lane is another set of links: it has to earn that.
constexpr double kLanePaysOff = 0.85;
constexpr std::uint16_t kMostLanes = 4;
constexpr std::uint64_t kWindowsPerLane = 4;

/// Of several windows one is in flight while the next is combined; smaller slices than these cost
/// more in messages than they gain.
constexpr std::uint64_t kSmallestSliceBytes = 8 << 10;

/// The work that windows have in common, per window where it says so.
struct Work {
  double step_ns;   ///< one window's messages at either end, and links beyond the cheap ones
  double bytes_ns;  ///< all windows' bytes, sent and combined
};

double transfer_ns(double elems, std::size_t elem_bytes, const CostTable& costs) {
  return elems * static_cast<double>(elem_bytes) / costs.bandwidth_bytes_per_s * 1e9;
}

Work work_of(const Load& load, double ranks, double links, std::size_t elem_bytes,
             const CostTable& costs) {
  const double dear = std::max(0.0, links - kCheapLinks) * kDearLinkSteps;
  const auto bytes = static_cast<double>(elem_bytes);
  return {.step_ns = (2 * static_cast<double>(load.messages) / ranks + dear) * costs.step_ns,
          .bytes_ns = transfer_ns(static_cast<double>(load.elems_sent) / ranks, elem_bytes, costs) +
                      static_cast<double>(load.elems_reduced) / ranks * bytes /
                          costs.reduce_bytes_per_s * 1e9};
}

/// Links that the busiest rank has to hold open in either direction.
double links_of(const CatalogueEntry& entry, const Problem& problem) {
  switch (entry.algorithm) {
    case Algorithm::one_shot:
    case Algorithm::two_shot:
    case Algorithm::pairwise:
    case Algorithm::linear:
    case Algorithm::root_collects:
      return problem.size - 1.0;
    default:
      return 0;
  }
}

}  // namespace

double predict_ns(const CatalogueEntry& entry, const Problem& problem, const Choice& choice,
                  std::size_t elem_bytes, const CostTable& costs) {
  const Theory theory = entry.theory(problem);
  const double windows =
      std::max(1.0, static_cast<double>(window_count(problem, theory.blocks, choice)));
  const double lanes = std::min<double>(choice.lanes, windows);
  const double links = links_of(entry, problem);
  const Work busiest = work_of(theory.busiest, 1, links, elem_bytes, costs);
  const Work average = work_of(theory.total, problem.size, links, elem_bytes, costs);

  // One window on its way through everyone: each hop waits for the message and moves its bytes.
  const auto depth = static_cast<double>(theory.depth);
  const double messages = std::max(1.0, static_cast<double>(theory.busiest.messages));
  const double hop_ns = costs.latency_ns + costs.step_ns + busiest.bytes_ns / windows / messages;
  const double path_ns = depth * hop_ns;
  // What its busiest rank has to do for one window, whatever the latency.
  // The other ends bear a part of what it sends, and it of what it receives: what it combines, but
  // at least the average.
  const auto sent = static_cast<double>(theory.busiest.elems_sent);
  const double received = std::max(static_cast<double>(theory.total.elems_sent) / problem.size,
                                   static_cast<double>(theory.busiest.elems_reduced));
  const double others_ns =
      (1 - costs.sender_share) * transfer_ns(sent - received, elem_bytes, costs);
  const double busy_ns = busiest.step_ns + (busiest.bytes_ns - others_ns) / windows;

  double total_ns = 0;
  if (entry.windows_overlap) {
    // What the busiest rank sends last still has its way to go.
    const double sending_ns = busy_ns - messages * costs.step_ns;
    const double first_window_ns = std::max({path_ns, busy_ns, sending_ns + costs.latency_ns});
    total_ns = first_window_ns + (windows - 1) * busy_ns;
  } else {
    total_ns = std::ceil(windows / lanes) * std::max(path_ns, lanes * busy_ns);
  }
  if (costs.cores_per_rank < 1) {
    // The ranks take turns: the work of all of them stands in a queue.
    const double work_ns = average.step_ns * windows + average.bytes_ns;
    total_ns = std::max(total_ns, work_ns / costs.cores_per_rank + path_ns / 2);
  }
  return total_ns;
}

std::optional<Tuned> tune(const CatalogueEntry& entry, const Problem& problem,
                          std::size_t elem_bytes, const CostTable& costs, std::uint16_t max_lanes) {
  const Theory theory = entry.theory(problem);
  const std::uint64_t bytes = std::uint64_t{elem_bytes} * theory.blocks_per_message;
  if (bytes > costs.slot_bytes) return std::nullopt;
  const std::uint64_t most = std::bit_floor(costs.slot_bytes / bytes);
  const std::uint64_t least =
      std::min(most, std::bit_ceil(std::max<std::uint64_t>(1, kSmallestSliceBytes / bytes)));
  const std::uint16_t lanes_limit = entry.windows_overlap ? 1 : std::min(max_lanes, kMostLanes);

  std::optional<Tuned> best;
  for (std::uint64_t slice = most; slice >= least; slice /= 2) {
    for (std::uint16_t lanes = 1; lanes <= lanes_limit;
         lanes = static_cast<std::uint16_t>(2 * lanes)) {
      const Choice choice{entry.algorithm, lanes, slice};
      const std::uint64_t windows = window_count(problem, theory.blocks, choice);
      if (lanes > 1 && windows < kWindowsPerLane * lanes) break;
      const double time = predict_ns(entry, problem, choice, elem_bytes, costs);
      const bool more_lanes = best && lanes > best->choice.lanes;
      if (!best || time < best->predicted_ns * (more_lanes ? kLanePaysOff : 1.0)) {
        best = Tuned{choice, time};
      }
    }
    if (slice == 1) break;
  }
  return best;
}

}  // namespace ccoll
