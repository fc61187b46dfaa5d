// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The table of algorithms, and the choice among them. Pure: no I/O, no clock, no environment.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ccoll/types.hpp"
#include "schedule/schedule.hpp"

namespace ccoll {

/// The work of one rank, or of all. Messages count one window in which every block that is not
/// empty has a slice (the first window is one); elements count all windows.
struct Load {
  std::uint64_t messages = 0;  ///< sent
  std::uint64_t elems_sent = 0;
  std::uint64_t elems_repeated = 0;  ///< part of elems_sent: to a step's further receivers
  std::uint64_t elems_reduced = 0;   ///< elements received and combined with others
  friend bool operator==(const Load&, const Load&) = default;
};

/// The part of the work that crosses between hosts.
struct Across {
  std::uint64_t depth = 0;
  Load busiest;
  Load total;
  friend bool operator==(const Across&, const Across&) = default;
};

/// An algorithm's cost on a problem, from formulas that do not use `make`; tests compare the
/// schedules with them. If some block_counts are 0, `depth` and `messages` are upper bounds. If
/// there are fewer elements than blocks, `depth` is one too. Otherwise all is exact.
struct Theory {
  std::uint32_t blocks = 1;              ///< parts that the operation's buffers are cut into
  std::uint32_t blocks_per_message = 1;  ///< most in one message: a slot must hold as many slices
  std::uint64_t depth = 0;      ///< messages one after another on the longest path of one window
  std::uint32_t roundings = 0;  ///< how often a 16-bit float may be rounded on its way
  Load busiest;                 ///< the maximum over the ranks, for each number separately
  Load total;                   ///< sum over all ranks
  /// Set by algorithms that know of hosts.
  std::optional<Across> across;
  friend bool operator==(const Theory&, const Theory&) = default;
};

/// One algorithm for one kind of operation.
struct CatalogueEntry {
  Kind kind;
  Algorithm algorithm;
  /// One rank's program with one copy of its lanes; see make_program. It takes any size above 1,
  /// any root and count. Where sizes are private (problem.hpp) it does not depend on them.
  Program (*make)(const Problem& problem, Rank rank);
  /// The cost on a whole problem.
  Theory (*theory)(const Problem& problem);
  /// Whether a rank may begin a window before its peers have ended the previous one. If not, only
  /// more copies of the lanes hide latency.
  bool windows_overlap;
  /// Whether it serves blocks of different sizes. In all_gather and reduce_scatter every rank knows
  /// the sizes; in gather, scatter and all_to_all they are private.
  bool ragged;
  /// Whether it knows of hosts. It needs several hosts, and at least two ranks on one of them.
  bool by_host;
  /// Whether all ranks do alike: rank r + d sends and receives as many blocks at a time as rank r,
  /// with d added to every peer (mod the size). With `by_host`, hosts must have equal numbers of
  /// consecutive ranks, and d must be a multiple of that number. Otherwise d is any number.
  bool rotates;
  std::string_view source;  ///< paper or text that describes the algorithm
};

/// Algorithms are listed in this order, and the first of equal predictions wins.
std::span<const CatalogueEntry> catalogue();
/// Returns null if there is no such algorithm for that kind.
const CatalogueEntry* find_algorithm(Kind kind, Algorithm algorithm);
/// The algorithms for the kind, or for its v-operation if `ragged`.
std::vector<Algorithm> algorithms_for(Kind kind, bool ragged = false);
/// The problem as every rank knows it, which is all that choosing looks at. If sizes are private, a
/// block counts as 64 KiB.
Problem as_all_see_it(Problem problem, std::size_t elem_bytes);

std::optional<Algorithm> parse_algorithm(std::string_view name);
std::optional<Kind> parse_kind(std::string_view name);

/// The order in which an operation needs contributions to be combined. Each order also meets the
/// ones before it.
enum class CombineOrder : std::uint8_t {
  any,
  /// The operation does not commute: only contributions of neighbouring stretches of ranks are
  /// combined, the lower one first.
  by_rank,
  /// All ranks' contributions are combined in one step, from the lowest rank up. Floating-point
  /// results are then the same by any algorithm and for any count.
  at_once,
};
/// Whether the algorithm keeps that order.
bool keeps_order(const Problem& problem, Algorithm algorithm, CombineOrder order);

/// The program that rank `rank` runs. `problem` is whole, or as that rank sees it.
Program make_program(const Problem& problem, const Choice& choice, Rank rank);

/// Costs of one kind of link.
struct LinkCosts {
  double latency_ns = 6000;              ///< one small message, one way, without its two steps
  double bandwidth_bytes_per_s = 2.5e9;  ///< of one link, and of all that leaves a host
  double sender_share = 1;               ///< part of a byte's time that keeps the sender busy; the
                                         ///< rest keeps the receiver busy. 1: the wire's
  double step_ns = 2500;                 ///< per message at either end: a system call
  friend bool operator==(const LinkCosts&, const LinkCosts&) = default;
};

/// Costs that timed calls over one kind of link can show; see fit().
struct MeasuredCosts {
  LinkCosts links;
  double reduce_bytes_per_s = 8e9;  ///< of the output, one source added
  friend bool operator==(const MeasuredCosts&, const MeasuredCosts&) = default;
};

/// Costs of links and reductions. All ranks use rank 0's.
struct CostTable {
  LinkCosts links;                  ///< between any two ranks: the most expensive ones
  LinkCosts inside;                 ///< between two ranks of a host; only for problems with host_of
  double reduce_bytes_per_s = 8e9;  ///< of the output, one source added
  double cores_per_rank = 1.0;      ///< below 1, ranks take turns on a core
  /// Whether `links`, or `inside`, are memory that both ends can read.
  bool is_memory = false;
  bool is_memory_inside = false;
  std::size_t slot_bytes = 128 << 10;  ///< the most that one message carries
  /// If wires move the bytes while ranks go on: the rate of all that a rank sends over `links`, or
  /// over `inside`. 0: ranks move them.
  double wires_bytes_per_s = 0;
  double wires_inside_bytes_per_s = 0;
  /// The rate of all that leaves a host. 0: as over one of `links`.
  double host_bytes_per_s = 0;
  /// Ports that the lanes over `links` are spread over, each with the speed of `links`.
  std::uint16_t rails = 1;
  friend bool operator==(const CostTable&, const CostTable&) = default;
};

/// The wishes of the caller or of CCOLL_ALGO; empty fields are left to the model.
struct Forced {
  std::optional<Algorithm> algorithm;
  std::optional<std::uint16_t> max_lanes;
  /// Only algorithms that keep this order are candidates.
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
  std::string wish{};                 ///< what became of a forced algorithm; empty without one
  bool is_wish_met = false;

  /// One sentence. Made only when it is asked for: it takes longer than a short call.
  std::string reason() const;
};

/// Chooses for `problem`, whole or as a rank sees it, with elements of `elem_bytes`. Ragged blocks
/// leave only the algorithms that serve them. Private sizes are ignored: `count` then stands for
/// every block, a guess that all ranks share, or 0. If a forced algorithm does not apply, the model
/// chooses and the reason says so.
Chosen choose(const Problem& problem, std::size_t elem_bytes, const CostTable& costs,
              const Forced& forced = {});

/// Returns `costs` with the measured links, of one kind everywhere.
CostTable with(CostTable costs, const MeasuredCosts& measured);

/// The time that a call took.
struct Measured {
  Problem problem;
  std::size_t elem_bytes = 1;
  Choice choice;
  double ns = 0;
};

/// Fits links and reductions of `costs` to calls that were measured over links of one kind. The
/// result chooses no worse among them than `costs` does, and comes nearest to their times.
MeasuredCosts fit(const CostTable& costs, std::span<const Measured> measured);

/// How well the model predicts the measured times; 1 is perfect, also if nothing was measured.
struct Accuracy {
  double off = 1;    ///< factor between predicted and measured time of a typical good algorithm
  double picks = 1;  ///< how much longer the chosen ones take than the best: the geometric mean
};
Accuracy assess(const CostTable& costs, std::span<const Measured> measured);

/// The table that `cc-bench explain` prints: candidates, predicted times, roundings, the reason,
/// and any measured times of that problem. `problem` is whole.
std::string explain(const Problem& problem, DataType type, const CostTable& costs,
                    const Forced& forced = {}, std::span<const Measured> measured = {});

}  // namespace ccoll
