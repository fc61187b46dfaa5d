// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The table of algorithms, and choosing among them. Pure: no I/O, no clock, no environment.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ccoll/types.hpp"
#include "schedule/schedule.hpp"

namespace ccoll {

/// What a rank does, or all ranks together. Messages are those of one window in which every block
/// that is not empty has a slice (the first is one); elements are those of all windows.
struct Load {
  std::uint64_t messages = 0;  ///< sent
  std::uint64_t elems_sent = 0;
  std::uint64_t elems_repeated = 0;  ///< of those: by steps that had sent them to another rank
  std::uint64_t elems_reduced = 0;   ///< elements received and combined with others
  friend bool operator==(const Load&, const Load&) = default;
};

/// Of what is done, that part which crosses between hosts.
struct Across {
  std::uint64_t depth = 0;
  Load busiest;
  Load total;
  friend bool operator==(const Across&, const Across&) = default;
};

/// What an algorithm costs on a problem, from formulas that know nothing of `make`; tests hold the
/// schedules to them. With block_counts of which some are 0, `depth` and `messages` are upper
/// bounds, and with fewer elements than blocks `depth` is; else all is exact.
struct Theory {
  std::uint32_t blocks = 1;              ///< parts that the operation's buffers are cut into
  std::uint32_t blocks_per_message = 1;  ///< most in one message: a slot must hold as many slices
  std::uint64_t depth = 0;      ///< messages one after another on the longest path of one window
  std::uint32_t roundings = 0;  ///< how often a 16-bit float may be rounded on its way
  Load busiest;                 ///< the most of any rank, for each number by itself
  Load total;                   ///< of all ranks
  /// Of algorithms that know of hosts.
  std::optional<Across> across;
  friend bool operator==(const Theory&, const Theory&) = default;
};

/// One algorithm for one kind of operation.
struct CatalogueEntry {
  Kind kind;
  Algorithm algorithm;
  /// One rank's program with one copy of its lanes; see make_program. Any size above 1, any root
  /// and count. Where sizes are private (problem.hpp) it does not depend on them.
  Program (*make)(const Problem& problem, Rank rank);
  /// Of a whole problem.
  Theory (*theory)(const Problem& problem);
  /// Whether a rank may begin a window before its peers have ended the last one. Where it may not,
  /// only more copies of the lanes hide latency.
  bool windows_overlap;
  /// Whether it serves blocks of different sizes: those of all_gather and reduce_scatter, which all
  /// ranks know, or those of gather, scatter and all_to_all, which are private.
  bool ragged;
  /// Whether it knows of hosts: chosen only where ranks of several are at least two on some.
  bool by_host;
  /// Whether all ranks do alike: rank r + d sends and receives what rank r does, as many blocks at
  /// a time, with d added to every peer (mod the size). For any d; or `by_host`, where hosts have
  /// the same number of ranks one after another, for any d that is a multiple of that number.
  bool rotates;
  std::string_view source;  ///< paper or text that the algorithm is taken from
};

/// In the order in which algorithms are listed and equal predictions are decided.
std::span<const CatalogueEntry> catalogue();
/// Null when there is no such algorithm for that kind.
const CatalogueEntry* find_algorithm(Kind kind, Algorithm algorithm);
/// Of the kind, or of its v-operation.
std::vector<Algorithm> algorithms_for(Kind kind, bool ragged = false);
/// The problem by what every rank knows of it, which is all that choosing looks at: where sizes are
/// private a block is taken for 64 KiB.
Problem as_all_see_it(Problem problem, std::size_t elem_bytes);

std::optional<Algorithm> parse_algorithm(std::string_view name);
std::optional<Kind> parse_kind(std::string_view name);

/// What an operation asks of the order in which contributions are combined; each has what those
/// before it have.
enum class CombineOrder : std::uint8_t {
  any,
  /// Only what neighbouring stretches of ranks have put in, the lower one first: the operation does
  /// not commute.
  by_rank,
  /// All ranks' in one step, from the lowest rank up: then floating-point results are the same by
  /// whatever algorithm, and for any size.
  at_once,
};
/// Whether the algorithm keeps that order.
bool keeps_order(const Problem& problem, Algorithm algorithm, CombineOrder order);

/// The program that rank `rank` runs. `problem` is whole or as that rank sees it.
Program make_program(const Problem& problem, const Choice& choice, Rank rank);

/// Of one kind of link.
struct LinkCosts {
  double latency_ns = 6000;              ///< one small message, one way, beside its two steps
  double bandwidth_bytes_per_s = 2.5e9;  ///< of one link; also what leaves a host at a time
  double sender_share = 1;               ///< of a byte's time, what its sender is busy; the rest
                                         ///< is its receiver's. 1: the wire's
  double step_ns = 2500;                 ///< per message at either end: a system call
  friend bool operator==(const LinkCosts&, const LinkCosts&) = default;
};

/// What can be measured by timing calls over one kind of links; see fit().
struct MeasuredCosts {
  LinkCosts links;
  double reduce_bytes_per_s = 8e9;  ///< of the output, one source added
  friend bool operator==(const MeasuredCosts&, const MeasuredCosts&) = default;
};

/// What links and reductions cost; rank 0's is everyone's.
struct CostTable {
  LinkCosts links;                  ///< between any two ranks: the dearest there are
  LinkCosts inside;                 ///< between two of one host; only where problems have host_of
  double reduce_bytes_per_s = 8e9;  ///< of the output, one source added
  double cores_per_rank = 1.0;      ///< below 1, ranks take turns on a core
  /// Whether `links`, or `inside`, are memory that both ends look into.
  bool is_memory = false;
  bool is_memory_inside = false;
  std::size_t slot_bytes = 128 << 10;  ///< the most that one message carries
  /// Where wires move the bytes while ranks go on: how fast all that a rank sends over `links`, or
  /// over `inside`, passes. 0: ranks move them.
  double wires_bytes_per_s = 0;
  double wires_inside_bytes_per_s = 0;
  /// How fast all that leaves a host passes. 0: as over one of `links`.
  double host_bytes_per_s = 0;
  /// Ports that the lanes over `links` are spread over, each as fast as those say.
  std::uint16_t rails = 1;
  friend bool operator==(const CostTable&, const CostTable&) = default;
};

/// What the caller or CCOLL_ALGO asked for; empty fields are left to the model.
struct Forced {
  std::optional<Algorithm> algorithm;
  std::optional<std::uint16_t> max_lanes;
  /// Only algorithms that keep it.
  CombineOrder order = CombineOrder::any;
};

struct Candidate {
  Algorithm algorithm;
  double predicted_ns;
  std::uint32_t roundings;
};

/// A Choice with its reasons.
struct Chosen {
  Choice choice;
  std::vector<Candidate> candidates;  ///< by predicted time, best first
  std::string reason;                 ///< one sentence
};

/// Picks for `problem`, whole or as a rank sees it, with elements of `elem_bytes`; of ragged blocks
/// only what serves them. Private sizes are not looked at: then `count` stands for every block, a
/// guess that all ranks share, or 0. A forced algorithm that does not apply falls back to the model
/// and the reason says so.
Chosen choose(const Problem& problem, std::size_t elem_bytes, const CostTable& costs,
              const Forced& forced = {});

/// `costs` with links of one kind everywhere, those that were measured.
CostTable with(CostTable costs, const MeasuredCosts& measured);

/// How long a call took.
struct Measured {
  Problem problem;
  std::size_t elem_bytes = 1;
  Choice choice;
  double ns = 0;
};

/// The costs with which the model comes nearest to what was measured over links of one kind, among
/// those with which it chooses no worse among that than with `costs`, of which links and reductions
/// are replaced.
MeasuredCosts fit(const CostTable& costs, std::span<const Measured> measured);

/// How well the model tells what was measured; 1 is perfect, and is that of nothing measured.
struct Accuracy {
  double off = 1;  ///< the factor between predicted and measured times: of a typical good algorithm
  double picks = 1;  ///< how much longer the chosen ones take than the best: the geometric mean
};
Accuracy assess(const CostTable& costs, std::span<const Measured> measured);

/// The table that `cc-bench explain` prints: candidates, predicted times, roundings, the reason.
/// With what was measured of that problem, if anything. `problem` is whole.
std::string explain(const Problem& problem, DataType type, const CostTable& costs,
                    const Forced& forced = {}, std::span<const Measured> measured = {});

}  // namespace ccoll
