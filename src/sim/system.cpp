// SPDX-License-Identifier: Apache-2.0
#include "sim/system.hpp"

#include <algorithm>
#include <unordered_map>

namespace ccoll::sim {
namespace {

std::uint64_t slice_of_block(std::uint64_t block_bytes, std::uint64_t slice_bytes,
                             std::uint64_t window) {
  if (window > block_bytes / slice_bytes) return 0;
  return std::min(slice_bytes, block_bytes - window * slice_bytes);
}

class Builder {
 public:
  Builder(const Problem& problem, const Choice& choice, std::size_t elem_bytes,
          const Network& network, const SystemOptions& options)
      : problem_(problem), choice_(choice), elem_bytes_(elem_bytes), options_(options) {
    system_.network = network;
    system_.size = problem.size;
    system_.kept = options.kept;
    system_.nodes = network.nodes(options.kept);
  }

  Result<System> build() {
    ranks_begin_.push_back(0);
    for (Rank rank = 0; rank < options_.kept; ++rank) {
      const Program program = make_program(problem_, choice_, rank);
      if (rank == 0) measure(program);
      CCOLL_TRY(add(program));
      ranks_begin_.push_back(static_cast<std::uint32_t>(system_.lanes.size()));
    }
    CCOLL_TRY(check_links());
    add_waits();
    add_threads();
    add_wires();
    for (SimLink& link : system_.links) {
      link.slots = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(system_.network.slots_per_link,
                                  link.per_window * std::max<std::uint64_t>(1, system_.windows)));
      link.first_slot = system_.slots;
      system_.slots += link.slots;
    }
    CCOLL_TRY(check_memory());
    CCOLL_TRY(check_time());
    return std::move(system_);
  }

 private:
  void measure(const Program& program) {
    blocks_ = program.blocks;
    const std::uint64_t longer = block_elems(problem_, blocks_, 0);
    const std::uint64_t shorter = block_elems(problem_, blocks_, blocks_ - 1);
    longer_blocks_ = longer == shorter ? 0 : static_cast<std::uint32_t>(problem_.count % blocks_);
    system_.stripes = program.stripes;
    system_.windows = window_count(problem_, blocks_, choice_);
    system_.whole_windows = shorter / choice_.slice_elems;
    system_.slice_bytes = choice_.slice_elems * elem_bytes_;
    system_.longer_bytes = longer * elem_bytes_;
    system_.shorter_bytes = shorter * elem_bytes_;
    const Rank beside = system_.network.ranks_per_node == 0
                            ? problem_.size
                            : std::min(problem_.size, system_.network.ranks_per_node);
    if (system_.network.cores_per_node < beside) system_.cores = system_.network.cores_per_node;
  }

  /// The number of longer blocks among `count` blocks from `first` on. Longer blocks come first.
  std::uint32_t longer_among(std::uint32_t first, std::uint32_t count) const {
    const auto below = [&](std::uint64_t block) {  // in blocks [0, block)
      return block / blocks_ * longer_blocks_ +
             std::min<std::uint64_t>(block % blocks_, longer_blocks_);
    };
    const std::uint64_t begin = first % blocks_;
    return static_cast<std::uint32_t>(below(begin + count) - below(begin));
  }

  Status add(const Program& program) {
    for (std::size_t number = 0; number < program.lanes.size(); ++number) {
      const Lane& lane = program.lanes[number];
      const auto global = static_cast<std::uint32_t>(system_.lanes.size());
      SimLane compact{.rank = program.rank, .stripe = lane.stripe};
      compact.steps.begin = static_cast<std::uint32_t>(system_.steps.size());
      for (const Step& step : lane.steps)
        add_step(program, static_cast<std::uint16_t>(number), global, step);
      compact.steps.end = static_cast<std::uint32_t>(system_.steps.size());
      system_.lanes.push_back(compact);
    }
    return check_memory();
  }

  void add_step(const Program& program, std::uint16_t number, std::uint32_t lane,
                const Step& step) {
    SimStep compact;
    for (const Operand& operand : step.local.empty() ? step.store : step.local) {
      compact.blocks += operand.blocks;
      compact.longer += longer_among(operand.block, operand.blocks);
    }
    const std::size_t sources = step.receives.size() + (step.local.empty() ? 0 : 1);
    compact.combined = static_cast<std::uint32_t>(std::max<std::size_t>(sources, 1) - 1);
    compact.lends = step.lend != Lend::never;
    compact.receives.begin = static_cast<std::uint32_t>(system_.receives.size());
    for (const Receive& receive : step.receives) {
      const std::uint32_t link = link_of(receive.peer, receive.lane, program.rank);
      system_.links[link].to_lane = lane;
      system_.receives.push_back(link);
    }
    compact.receives.end = static_cast<std::uint32_t>(system_.receives.size());
    compact.sends.begin = static_cast<std::uint32_t>(system_.sends.size());
    for (const Rank peer : step.sends) {
      const std::uint32_t link = link_of(program.rank, number, peer);
      system_.links[link].from_lane = lane;
      system_.links[link].per_window++;
      system_.links[link].lends |= step.lend != Lend::never;
      // Within a step messages leave in the order of its sends.
      system_.links[link].tie_out = system_.sends.size() - compact.sends.begin;
      system_.sends.push_back(link);
    }
    compact.sends.end = static_cast<std::uint32_t>(system_.sends.size());
    if (step.after) {
      compact.after = static_cast<std::uint32_t>(system_.waits.size());
      system_.waits.push_back(
          {ranks_begin_[program.rank] + step.after->lane, step.after->step, lane});
    }
    system_.steps.push_back(compact);
  }

  /// The link from `from` to `to`, shifted so that `to` is a rank that is kept.
  std::uint32_t link_of(Rank from, std::uint16_t lane, Rank to) {
    const Rank size = problem_.size;
    const Rank seen = to % options_.kept;
    const auto source = static_cast<Rank>((std::uint64_t{from} + size - (to - seen)) % size);
    const std::uint64_t key = (std::uint64_t{seen} * size + source) << 16 | lane;
    const auto [found, is_new] =
        numbers_.try_emplace(key, static_cast<std::uint32_t>(system_.links.size()));
    if (is_new) {
      const Network& network = system_.network;
      SimLink link;
      link.crosses = network.ranks_per_node > 0 &&
                     source / network.ranks_per_node != seen / network.ranks_per_node;
      const Rank first = network.ranks_per_node == 0 ? 0 : seen - place(seen);
      // It is the same on all like nodes.
      const std::uint64_t distance =
          (std::uint64_t{source} + size - (network.ranks_per_node == 0 ? seen : first)) % size;
      link.tie_in = (distance * size + place(seen)) << 16 | lane;
      system_.links.push_back(link);
    }
    return found->second;
  }

  /// The rank's number among its node's ranks.
  Rank place(Rank rank) const {
    return system_.network.ranks_per_node == 0 ? rank : rank % system_.network.ranks_per_node;
  }

  Status check_links() const {
    for (const SimLink& link : system_.links) {
      if (link.to_lane == kNone || link.per_window == 0)
        return fail(ErrorKind::internal, "{} has a link with only one end at {} ranks",
                    to_string(choice_.algorithm), problem_.size);
    }
    return {};
  }

  void add_waits() {
    std::vector<std::vector<std::uint32_t>> by_lane(system_.lanes.size());
    for (std::uint32_t wait = 0; wait < system_.waits.size(); ++wait)
      by_lane[system_.waits[wait].on_lane].push_back(wait);
    for (std::size_t lane = 0; lane < by_lane.size(); ++lane) {
      std::ranges::stable_sort(by_lane[lane], {},
                               [&](std::uint32_t wait) { return system_.waits[wait].on_step; });
      Span& targets = system_.lanes[lane].targets;
      targets.begin = static_cast<std::uint32_t>(system_.targets.size());
      system_.targets.insert(system_.targets.end(), by_lane[lane].begin(), by_lane[lane].end());
      targets.end = static_cast<std::uint32_t>(system_.targets.size());
    }
  }

  /// If lanes take turns, or ranks share cores, a rank's thread is a resource.
  void add_threads() {
    if (!system_.network.lanes_in_turn && system_.cores == 0) return;
    for (Rank rank = 0; rank < options_.kept; ++rank) {
      const std::uint32_t lanes = ranks_begin_[rank + 1] - ranks_begin_[rank];
      SimResource thread{.shared = options_.all_shared || lanes > 1 || system_.cores > 0};
      if (system_.network.ranks_per_node > 0) thread.node = rank / system_.network.ranks_per_node;
      for (std::uint32_t lane = ranks_begin_[rank]; lane < ranks_begin_[rank + 1]; ++lane) {
        system_.lanes[lane].thread = static_cast<std::uint32_t>(system_.resources.size());
        thread.used = thread.used || system_.lanes[lane].steps.size() > 0;
      }
      system_.resources.push_back(thread);
    }
  }

  /// Ports have an out and an in per rank. NICs have an out and an in for each NIC of each node.
  void add_wires() {
    const Network& network = system_.network;
    const auto ports = static_cast<std::uint32_t>(system_.resources.size());
    const std::uint32_t nics = ports + 2 * options_.kept;
    // Use at most as many as a node's ranks, even if the network's text names more.
    const Rank nics_per_node =
        std::min({network.nics_per_node, network.ranks_per_node, options_.kept});
    system_.resources.resize(nics + std::size_t{2} * system_.nodes * nics_per_node);
    users_.assign(system_.resources.size(), kNone);
    for (SimLink& link : system_.links) {
      const Rank from = system_.lanes[link.from_lane].rank;
      const Rank to = system_.lanes[link.to_lane].rank;
      link.tie_out |= std::uint64_t{place(from)} << 40 |
                      std::uint64_t{link.from_lane - ranks_begin_[from]} << 24;
      if (!link.crosses && network.moved_by_ranks) continue;
      const auto wire = [&](Rank rank, std::uint32_t direction) {
        if (!link.crosses) return ports + 2 * rank + direction;
        const Rank node = rank / network.ranks_per_node;
        return nics + 2 * (node * nics_per_node + place(rank) % nics_per_node) + direction;
      };
      link.out = wire(from, 0);
      link.in = wire(to, 1);
      const double rate = link.crosses ? network.nic_bytes_per_s : network.port_bytes_per_s;
      use(link.out, link.from_lane, rate);
      use(link.in, static_cast<std::uint32_t>(&link - system_.links.data()), rate);
    }
  }

  /// Messages of one lane, or over one link, are in order: a single such user needs no queue.
  void use(std::uint32_t resource, std::uint32_t user, double bytes_per_s) {
    SimResource& used = system_.resources[resource];
    used.bytes_per_s = bytes_per_s;
    if (options_.all_shared || (users_[resource] != kNone && users_[resource] != user))
      used.shared = true;
    used.used = true;
    users_[resource] = user;
  }

  /// Includes what the run will need for each.
  Status check_memory() const {
    constexpr std::uint64_t kLaneBytes = 64, kLinkBytes = 80, kSlotBytes = 16, kIndexBytes = 48;
    const std::uint64_t slots =
        system_.slots > 0
            ? system_.slots
            : system_.links.size() *
                  std::min<std::uint64_t>(system_.network.slots_per_link, system_.windows);
    const std::uint64_t bytes =
        system_.steps.size() * sizeof(SimStep) +
        system_.lanes.size() * (sizeof(SimLane) + kLaneBytes) +
        system_.links.size() * (sizeof(SimLink) + kLinkBytes + kIndexBytes) +
        (system_.receives.size() + system_.sends.size()) * sizeof(std::uint32_t) +
        slots * kSlotBytes;
    if (bytes <= options_.max_bytes) return {};
    return fail(ErrorKind::unsupported, "needs more than {} MiB of memory",
                options_.max_bytes >> 20);
  }

  /// Even if nothing happened in parallel, all of it must end within the range of Picoseconds.
  Status check_time() const {
    constexpr double kMostNs = 9e15, kNsPerDay = 86400e9;
    const Network& network = system_.network;
    const LinkCosts& inside = network.inside;
    const LinkCosts& across = network.across;
    const double ns_per_byte =
        1e9 * (1 / inside.bandwidth_bytes_per_s + 1 / across.bandwidth_bytes_per_s +
               2 / network.port_bytes_per_s + 2 / network.nic_bytes_per_s);
    const double ns_per_message =
        2 * (inside.latency_ns + across.latency_ns + inside.step_ns + across.step_ns);
    double ns = 0;  // for one window
    for (const SimStep& step : system_.steps) {
      const auto bytes = static_cast<double>(system_.bytes(step, 0));
      ns += (step.receives.size() + step.sends.size()) * (ns_per_message + bytes * ns_per_byte) +
            step.combined * bytes / network.reduce_bytes_per_s * 1e9;
    }
    ns *= static_cast<double>(system_.windows) / system_.stripes;
    if (ns <= kMostNs) return {};
    return fail(ErrorKind::unsupported,
                "may take {:.0f} days of virtual time; the limit is {:.0f} days", ns / kNsPerDay,
                kMostNs / kNsPerDay);
  }

  const Problem& problem_;
  const Choice& choice_;
  const std::size_t elem_bytes_;
  const SystemOptions& options_;
  System system_;
  std::uint32_t blocks_ = 1;
  std::uint32_t longer_blocks_ = 0;
  std::vector<std::uint32_t> ranks_begin_;  ///< first lane of each rank, and one past the last
  std::unordered_map<std::uint64_t, std::uint32_t> numbers_;  ///< numbers of links
  std::vector<std::uint32_t> users_;                          ///< the last user found, by resource
};

}  // namespace

std::uint64_t System::bytes(const SimStep& step, std::uint64_t window) const {
  if (window < whole_windows) return step.blocks * slice_bytes;
  return step.longer * slice_of_block(longer_bytes, slice_bytes, window) +
         (step.blocks - step.longer) * slice_of_block(shorter_bytes, slice_bytes, window);
}

Result<System> make_system(const Problem& problem, const Choice& choice, std::size_t elem_bytes,
                           const Network& network, const SystemOptions& options) {
  return Builder(problem, choice, elem_bytes, network, options).build();
}

}  // namespace ccoll::sim
