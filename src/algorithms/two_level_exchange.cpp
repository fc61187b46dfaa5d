// SPDX-License-Identifier: Apache-2.0

/// Two-level reduce-scatter, all-gather and all-to-all: between two hosts every block travels as
/// little as it can, and all ranks of a host carry their part of it.
///
/// Data between ranks of one host go directly from one to the other. Data that enter or leave a
/// host pass one of its ranks, the gate, which depends on the remote rank's place in its host.
/// Reduce-scatter: the gate combines its host's contributions to a remote rank's block and sends
/// their sum. All-gather: the gate takes in a remote rank's block and hands it to its host's
/// others. All-to-all: the gate collects what its host's ranks have for a remote rank and sends
/// that as one message.
///
/// Rounds: 2, one of them between hosts. Blocks that leave a host of m ranks, of n in all on h
/// hosts: n-m for reduce_scatter, each a sum of m; m(h-1) for all_gather; m(n-m) for all_to_all, in
/// n-m messages rather than m(n-m). Any number of ranks on each host, in any order. Source: after
/// J. L. Träff, A. Rougier, "MPI collectives and datatypes for hierarchical all-to-all
/// communication", EuroMPI (2014). Drawings: two_level_reduce_scatter_5.txt,
/// two_level_all_gather_5.txt, two_level_all_to_all_5.txt

#include <algorithm>
#include <numeric>
#include <span>

#include "algorithms/common.hpp"
#include "algorithms/entries.hpp"
#include "algorithms/hosts.hpp"

namespace ccoll {
namespace {

// The lanes of reduce-scatter and all-to-all; lane 3 takes what is for the rank itself.
constexpr std::uint16_t kBeside = 0;   // own data for the host's others
constexpr std::uint16_t kToGate = 1;   // own data for ranks elsewhere
constexpr std::uint16_t kGateway = 2;  // the host's data for ranks elsewhere, as their gate
// The lanes of all-gather; lanes 2 and 3 take other ranks' blocks.
constexpr std::uint16_t kOwn = 0;  // the own block to its host's others and to other hosts' gates
constexpr std::uint16_t kPassOn = 1;  // blocks from elsewhere, as their gate

struct Place {
  Place(const Problem& problem, Rank of) : hosts(problem), rank(of), host(hosts.host_of(of)) {}

  std::vector<Rank> beside() const { return hosts.others_beside(rank); }
  std::vector<Rank> elsewhere() const { return hosts.ranks_elsewhere(host); }
  /// The gate that remote rank `other` has here, and the one that this rank has on another host.
  Rank gate_of(Rank other) const { return hosts.gate(host, other); }
  Rank gate_at(Rank other_host) const { return hosts.gate(other_host, rank); }
  std::vector<Rank> gates() const {
    std::vector<Rank> gates;
    for (Rank distance = 1; distance < hosts.count(); ++distance)
      gates.push_back(gate_at(ahead(host, distance, hosts.count())));
    return gates;
  }

  Hosts hosts;
  Rank rank;
  Rank host;
};

/// The lane of reduce_scatter and all_to_all for the host's others: input block b goes to rank b.
/// No sent block is written meanwhile (in place, only the own block is).
Lane straight_to_those_beside(const Place& place) {
  Lane lane;
  for (const Rank to : place.beside())
    lane.steps.push_back({.local = {input(to)}, .sends = {to}, .lend = Lend::always});
  return lane;
}

Lane to_the_gates(const Place& place) {
  Lane lane;
  for (const Rank to : place.elsewhere()) {
    const Rank gate = place.gate_of(to);
    if (gate == place.rank) continue;
    lane.steps.push_back({.local = {input(to)}, .sends = {gate}, .lend = Lend::always});
  }
  return lane;
}

/// The ranks elsewhere that this rank is the gate for.
std::vector<Rank> served(const Place& place) {
  auto ranks = place.elsewhere();
  std::erase_if(ranks, [&](Rank other) { return place.gate_of(other) != place.rank; });
  return ranks;
}

/// The blocks of a host's ranks, as stretches of consecutive ones.
std::vector<Operand> blocks_of(std::span<const Rank> ranks, Buffer buffer) {
  std::vector<Operand> operands;
  for (const Rank rank : ranks) {
    if (!operands.empty() && operands.back().block + operands.back().blocks == rank)
      ++operands.back().blocks;
    else
      operands.push_back({buffer, rank, 1});
  }
  return operands;
}

}  // namespace

Program two_level_reduce_scatter(const Problem& problem, Rank rank) {
  const Place place(problem, rank);
  const auto beside = place.beside();
  Lane gateway;
  for (const Rank to : served(place)) {
    Step step{.local = {input(to)}, .sends = {to}};
    for (const Rank from : beside) step.receives.push_back({from, kToGate});
    if (beside.empty()) step.lend = Lend::always;
    gateway.steps.push_back(std::move(step));
  }
  Step result{.local = {input(rank)}, .store = {output(rank)}, .finish = true};
  for (const Rank from : beside) result.receives.push_back({from, kBeside});
  for (const Rank from : place.gates()) result.receives.push_back({from, kGateway});
  std::ranges::sort(result.receives, {}, &Receive::peer);
  Program program = empty_program(problem, rank, problem.size);
  program.lanes = {straight_to_those_beside(place), to_the_gates(place), std::move(gateway),
                   Lane{.steps = {std::move(result)}}};
  return program;
}

Program two_level_all_gather(const Problem& problem, Rank rank) {
  const Place place(problem, rank);
  const auto beside = place.beside();
  Step own{.local = {input(rank)},
           .store = {output(rank)},
           .sends = place.gates(),
           .lend = Lend::always};
  own.sends.insert(own.sends.end(), beside.begin(), beside.end());
  Lane hand_on;
  Lane from_elsewhere;
  for (const Rank of : place.elsewhere()) {
    const Rank gate = place.gate_of(of);
    if (gate == rank) {
      hand_on.steps.push_back(
          {.receives = {{of, kOwn}}, .store = {output(of)}, .sends = beside, .lend = Lend::always});
    } else {
      from_elsewhere.steps.push_back({.receives = {{gate, kPassOn}}, .store = {output(of)}});
    }
  }
  Lane from_beside;
  for (const Rank of : beside)
    from_beside.steps.push_back({.receives = {{of, kOwn}}, .store = {output(of)}});
  Program program = empty_program(problem, rank, problem.size);
  program.lanes = {Lane{.steps = {std::move(own)}}, std::move(hand_on), std::move(from_beside),
                   std::move(from_elsewhere)};
  return program;
}

Program two_level_all_to_all(const Problem& problem, Rank rank) {
  const Place place(problem, rank);
  const auto beside = place.beside();
  const auto host = place.hosts.members(place.host);
  // A message to a rank elsewhere has what each rank of this host has for it. It is collected in
  // scratch, where block i is that of the host's i-th rank.
  Lane gateway{.scratch_blocks = place.hosts.size(place.host)};
  for (const Rank to : served(place)) {
    if (beside.empty()) {
      gateway.steps.push_back({.local = {input(to)}, .sends = {to}, .lend = Lend::always});
      continue;
    }
    std::vector<Operand> collected;
    for (Rank index = 0; index < host.size(); ++index) {
      const bool own = host[index] == rank;
      collected.push_back(own ? input(to) : scratch(index));
      if (!own)
        gateway.steps.push_back({.receives = {{host[index], kToGate}}, .store = {scratch(index)}});
    }
    gateway.steps.push_back({.local = std::move(collected), .sends = {to}});
  }
  if (beside.empty()) gateway.scratch_blocks = 0;
  Lane arrivals;
  arrivals.steps.push_back({.local = {input(rank)}, .store = {output(rank)}});
  for (const Rank from : beside)
    arrivals.steps.push_back({.receives = {{from, kBeside}}, .store = {output(from)}});
  for (const Rank from : place.gates()) {
    const auto there = place.hosts.members(place.hosts.host_of(from));
    arrivals.steps.push_back(
        {.receives = {{from, kGateway}}, .store = blocks_of(there, Buffer::output)});
  }
  Program program = empty_program(problem, rank, problem.size);
  program.lanes = {straight_to_those_beside(place), to_the_gates(place), std::move(gateway),
                   std::move(arrivals)};
  return program;
}

Theory two_level_exchange_theory(const Problem& problem) {
  const Rank n = problem.size;
  Theory theory{.blocks = n};
  if (moves_nothing(problem)) return theory;
  const Hosts hosts(problem);
  const Rank h = hosts.count();
  const bool gathers = problem.kind == Kind::all_gather;
  const bool exchanges = problem.kind == Kind::all_to_all;
  const bool inside = hosts.largest() > 1;
  if (exchanges && h > 1) theory.blocks_per_message = hosts.largest();
  theory.depth = (inside ? 1 : 0) + (h > 1 ? 1 : 0);
  if (problem.kind == Kind::reduce_scatter)
    theory.roundings = static_cast<std::uint32_t>(theory.depth);
  theory.across = Across{.depth = h > 1 ? 1U : 0U, .busiest = {}, .total = {}};

  // Blocks and elements of the i-th ranks of all hosts: what a gate serves, and its own host's.
  struct Sum {
    std::uint64_t present = 0;
    std::uint64_t elems = 0;
  };
  const auto of = [&](Rank rank) {
    const std::uint64_t elems = block_elems(problem, n, rank);
    return Sum{elems > 0 ? 1U : 0U, elems};
  };
  std::vector<Sum> at_index(hosts.largest());
  Sum all;
  for (Rank rank = 0; rank < n; ++rank) {
    const Sum block = of(rank);
    Sum& sum = at_index[hosts.index_of(rank)];
    sum = {sum.present + block.present, sum.elems + block.elems};
    all = {all.present + block.present, all.elems + block.elems};
  }

  for (Rank rank = 0; rank < n; ++rank) {
    const Rank host = hosts.host_of(rank);
    const std::uint64_t beside = hosts.size(host) - 1;
    const Sum own = of(rank);
    Sum serves;  // as a gate
    for (Rank index = hosts.index_of(rank); index < hosts.largest(); index += hosts.size(host)) {
      serves.present += at_index[index].present;
      serves.elems += at_index[index].elems;
    }
    serves = {serves.present - own.present, serves.elems - own.elems};
    Load crossing;
    Load load;
    if (gathers) {
      crossing = {.messages = own.present * (h - 1),
                  .elems_sent = own.elems * (h - 1),
                  .elems_repeated = repeated(own.elems, h - 1)};
      load = {
          .messages = crossing.messages + (own.present + serves.present) * beside,
          .elems_sent = crossing.elems_sent + (own.elems + serves.elems) * beside,
          .elems_repeated = repeated(own.elems, h - 1 + beside) + repeated(serves.elems, beside)};
    } else {
      const std::uint64_t collected = exchanges ? beside : 0;
      crossing = {.messages = serves.present, .elems_sent = serves.elems * (1 + collected)};
      load = {.messages = all.present - own.present,
              .elems_sent = all.elems - own.elems + serves.elems * collected};
      if (!exchanges) {
        crossing.elems_reduced = own.elems * (h - 1);
        load.elems_reduced = crossing.elems_reduced + (own.elems + serves.elems) * beside;
      }
    }
    count_rank(theory, load, crossing);
  }
  return theory;
}

}  // namespace ccoll
