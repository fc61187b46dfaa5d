// SPDX-License-Identifier: Apache-2.0
#include "algorithms/choosing/cost.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "algorithms/common.hpp"
#include "algorithms/hosts.hpp"

namespace ccoll {
namespace {

/// If all ranks talk to all, or to the root, each link beyond these has a cost. Opening, polling
/// and switching among so many is dearer than a message over a warm one.
constexpr double kCheapLinks = 16;
constexpr double kDearLinkSteps = 4;  ///< what each further link costs, in steps

/// Limit on the links of all lanes in either direction where more lanes only use more ports. A
/// direction over RDMA takes 1 MiB of slots; this limit leaves half of the 256 (CCOLL_SLOT_MEMORY).
constexpr double kMostLinks = 64;

/// Another lane is another set of links, so it must gain at least this factor.
constexpr double kLanePaysOff = 0.85;
constexpr std::uint64_t kWindowsPerLane = 4;

/// With several windows one is in flight while the next is combined. Slices smaller than this cost
/// more in messages than they gain.
constexpr std::uint64_t kSmallestSliceBytes = 8 << 10;

/// The sender's share of a transfer through memory. That several ranks read one write was measured
/// where they take turns, but not where each has a core.
constexpr double kWritingShare = 0.5;

/// The work of an algorithm over one kind of link.
struct LinkShare {
  const LinkCosts& costs;
  bool is_memory;
  double wires_bytes_per_s;
  double at_once;  ///< lanes whose bytes pass at the same time, each over a port of its own
  std::uint64_t depth;
  Load busiest;
  Load total;
};

std::uint64_t rest(std::uint64_t whole, std::uint64_t part) {
  return whole - std::min(whole, part);
}

Load rest(const Load& whole, const Load& part) {
  return {.messages = rest(whole.messages, part.messages),
          .elems_sent = rest(whole.elems_sent, part.elems_sent),
          .elems_repeated = rest(whole.elems_repeated, part.elems_repeated),
          .elems_reduced = rest(whole.elems_reduced, part.elems_reduced)};
}

/// Splits the work between hosts and inside; an algorithm that ignores hosts may use any link.
std::array<LinkShare, 2> parts_of(const Theory& theory, const CostTable& costs, double at_once) {
  const Across across = theory.across.value_or(Across{theory.depth, theory.busiest, theory.total});
  return {LinkShare{costs.links, costs.is_memory, costs.wires_bytes_per_s, at_once, across.depth,
                    across.busiest, across.total},
          LinkShare{costs.inside, costs.is_memory_inside, costs.wires_inside_bytes_per_s, 1,
                    rest(theory.depth, across.depth), rest(theory.busiest, across.busiest),
                    rest(theory.total, across.total)}};
}

/// True if a caller that does not get the result needs nothing of the others. Such callers pass
/// several calls in one turn.
bool goes_one_way(Kind kind) {
  switch (kind) {
    case Kind::broadcast:
    case Kind::reduce:
    case Kind::gather:
    case Kind::scatter:
      return true;
    default:
      return false;
  }
}

/// Converts elements to nanoseconds.
struct Times {
  double elem_bytes;
  const CostTable& costs;

  double transfer(double elems, const LinkCosts& links) const {
    return elems * elem_bytes / links.bandwidth_bytes_per_s * 1e9;
  }
  double reduction(double elems) const {
    return elems * elem_bytes / costs.reduce_bytes_per_s * 1e9;
  }
  /// Sending and combining the elements of all windows.
  double bytes(const Load& load, const LinkCosts& links) const {
    return transfer(static_cast<double>(load.elems_sent), links) +
           reduction(static_cast<double>(load.elems_reduced));
  }
};

/// Links that the busiest rank has to hold open in either direction. `hosts`: null if all ranks
/// share one; then the algorithm is none that goes by hosts.
double links_of(const CatalogueEntry& entry, const Problem& problem, const Hosts* hosts) {
  switch (entry.algorithm) {
    case Algorithm::one_shot:
    case Algorithm::two_shot:
    case Algorithm::pairwise:
    case Algorithm::linear:
    case Algorithm::root_collects:
      return problem.size - 1.0;
    case Algorithm::leaders:
      return hosts->largest();
    case Algorithm::two_level: {
      const double beside = hosts->largest() - 1.0;
      if (problem.kind == Kind::all_reduce) return beside + hosts->count() - 1;
      // The gates of its own block, and the ranks that it is a gate for.
      const double elsewhere = problem.size - hosts->smallest();
      return beside + hosts->count() - 1 + elsewhere / hosts->smallest();
    }
    default:
      return 0;
  }
}

/// The share of messages that cross between hosts, for an algorithm that ignores hosts.
double crossing_share(const CatalogueEntry& entry, const Problem& problem, const Hosts& hosts) {
  const auto n = static_cast<double>(problem.size);
  if (entry.algorithm == Algorithm::ring) {
    Rank crossings = 0;
    for (Rank rank = 0; rank < problem.size; ++rank)
      crossings += hosts.host_of(rank) != hosts.host_of(ahead(rank, 1, problem.size));
    return crossings / n;
  }
  double beside = 0;
  for (Rank host = 0; host < hosts.count(); ++host)
    beside += hosts.size(host) * (hosts.size(host) - 1.0);
  return 1 - beside / (n * (n - 1));
}

/// Elements that leave the average host through its one wire, from all its ranks.
double leaving_host(const CatalogueEntry& entry, const Theory& theory, const Problem& problem,
                    const Hosts& hosts) {
  const double leaving = theory.across ? static_cast<double>(theory.across->total.elems_sent)
                                       : static_cast<double>(theory.total.elems_sent) *
                                             crossing_share(entry, problem, hosts);
  return leaving / hosts.count();
}

/// The time in which so many elements leave a host.
double leaving_ns(double elems, const Times& times, const CostTable& costs, double at_once) {
  return costs.host_bytes_per_s > 0 ? elems * times.elem_bytes / costs.host_bytes_per_s * 1e9
                                    : times.transfer(elems, costs.links) / at_once;
}

}  // namespace

Model::Model(const CatalogueEntry& entry, const Problem& problem, std::size_t elem_bytes)
    : entry_(entry), problem_(problem), elem_bytes_(elem_bytes), theory_(entry.theory(problem)) {
  if (problem.host_of.empty()) {
    if (!entry.by_host) links_ = links_of(entry, problem, nullptr);
    return;
  }
  const Hosts hosts(problem);
  links_ = links_of(entry, problem, &hosts);
  leaving_host_ = leaving_host(entry, theory_, problem, hosts);
}

double Model::ns(const Choice& choice, const CostTable& costs) const {
  const Times times{static_cast<double>(elem_bytes_), costs};
  const double windows =
      std::max(1.0, static_cast<double>(window_count(problem_, theory_.blocks, choice)));
  const double lanes = std::min<double>(choice.lanes, windows);
  const double at_once = lanes / std::ceil(lanes / costs.rails);

  double path_ns = 0;     // one window on its way through all ranks
  double sending_ns = 0;  // the busiest rank's work for one window, with one step per message
  double messages_ns = 0;
  double wire_ns = 0;  // the busiest wire's work for one window
  double work_ns = 0;  // an average rank's work for all windows
  for (const LinkShare& part : parts_of(theory_, costs, at_once)) {
    const LinkCosts& links = part.costs;
    const bool takes_turns = part.is_memory && costs.cores_per_rank < 1;
    double bytes_ns = times.bytes(part.busiest, links);
    // Each hop waits for the message and moves its bytes. Where ranks take turns, those that poll
    // memory have their turns before the message's receiver has its own.
    const double turns = takes_turns && !goes_one_way(problem_.kind) ? 1 / costs.cores_per_rank : 1;
    const auto messages = static_cast<double>(part.busiest.messages);
    path_ns += static_cast<double>(part.depth) * (turns * links.latency_ns + links.step_ns +
                                                  bytes_ns / windows / std::max(1.0, messages));
    // A block for several receivers is written once, and each of them reads it.
    const auto once = [&](const Load& load, double share) {
      return takes_turns ? share * times.transfer(static_cast<double>(load.elems_repeated), links)
                         : 0;
    };
    bytes_ns -= once(part.busiest, 1);
    // The other ends bear a part of the cost of its sends, and it bears a part for its receives:
    // the elements that it combines, but at least the average.
    const auto sent = static_cast<double>(part.busiest.elems_sent);
    const double received = std::max(static_cast<double>(part.total.elems_sent) / problem_.size,
                                     static_cast<double>(part.busiest.elems_reduced));
    const double others_ns = (1 - links.sender_share) * times.transfer(sent - received, links);
    // Each message has a step at either end.
    const bool has_wires = part.wires_bytes_per_s > 0;
    if (has_wires)
      wire_ns = std::max(wire_ns, sent * times.elem_bytes / part.wires_bytes_per_s * 1e9 / windows);
    // Transfers over other ports pass at the same time.
    const double transfer_ns = times.transfer(sent, links);
    const double beside_ns = (transfer_ns - others_ns) * (1 - 1 / part.at_once);
    const double elsewhere_ns = has_wires ? transfer_ns : others_ns + beside_ns;
    sending_ns += messages * links.step_ns + (bytes_ns - elsewhere_ns) / windows;
    messages_ns += messages * links.step_ns;
    work_ns += (2 * static_cast<double>(part.total.messages) * links.step_ns * windows +
                times.bytes(part.total, links) - once(part.total, kWritingShare)) /
               problem_.size;
  }
  const double dear_ns = std::max(0.0, links_ - kCheapLinks) * kDearLinkSteps * costs.links.step_ns;
  sending_ns += dear_ns;
  const double busy_ns = std::max(sending_ns + messages_ns, wire_ns);
  sending_ns = std::max(sending_ns, wire_ns);

  double total_ns = 0;
  if (entry_.windows_overlap) {
    // The busiest rank's last message still has its way to go.
    const double first_window_ns =
        std::max({path_ns, busy_ns, sending_ns + costs.links.latency_ns});
    total_ns = first_window_ns + (windows - 1) * busy_ns;
  } else {
    total_ns = std::ceil(windows / lanes) * std::max(path_ns, lanes * busy_ns);
  }
  if (costs.cores_per_rank < 1) {
    // The ranks take turns: the work of all of them queues.
    work_ns += dear_ns * windows;
    total_ns = std::max(total_ns, work_ns / costs.cores_per_rank + path_ns / 2);
  }
  return std::max(total_ns, leaving_ns(leaving_host_, times, costs, at_once));
}

std::optional<Tuned> tune(const CatalogueEntry& entry, const Problem& problem,
                          std::size_t elem_bytes, const CostTable& costs, std::uint16_t max_lanes) {
  const Model model(entry, problem, elem_bytes);
  const Theory& theory = model.theory();
  const std::uint64_t bytes = std::uint64_t{elem_bytes} * theory.blocks_per_message;
  if (bytes > costs.slot_bytes) return std::nullopt;
  const std::uint64_t most = std::bit_floor(costs.slot_bytes / bytes);
  const std::uint64_t least =
      std::min(most, std::bit_ceil(std::max<std::uint64_t>(1, kSmallestSliceBytes / bytes)));
  const std::uint16_t lanes_limit = entry.windows_overlap
                                        ? std::min(max_lanes, costs.rails)
                                        : std::min(max_lanes, std::max(kMostLanes, costs.rails));

  std::optional<Tuned> best;
  std::uint64_t windows_before = 0;
  for (std::uint64_t slice = most; slice >= least; slice /= 2) {
    const std::uint64_t windows = window_count(problem, theory.blocks, {entry.algorithm, 1, slice});
    // Shorter slices matter only by what they divide.
    if (std::exchange(windows_before, windows) == windows && best) continue;
    for (std::uint16_t lanes = 1; lanes <= lanes_limit;
         lanes = static_cast<std::uint16_t>(2 * lanes)) {
      const Choice choice{entry.algorithm, lanes, slice};
      if (lanes > 1 && windows < kWindowsPerLane * lanes) break;
      if (costs.rails > 1 && lanes > 1 && model.links() * lanes > kMostLinks) break;
      const double time = model.ns(choice, costs);
      const bool more_lanes = best && lanes > best->choice.lanes;
      if (!best || time < best->predicted_ns * (more_lanes ? kLanePaysOff : 1.0)) {
        best = Tuned{choice, time, theory.roundings, theory.busiest.messages};
      }
    }
  }
  return best;
}

}  // namespace ccoll
