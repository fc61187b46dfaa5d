// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The verifier executes a schedule symbolically. For one Problem and Choice it proves that the
/// schedule computes the right result, never deadlocks and never races on a buffer; or it says what
/// is wrong.
///
/// The proofs:
/// - Programs have no wildcards, so one run over bounded links covers every interleaving: neither
///   its end nor its result depends on timing. The run is repeated with more slots per link until
///   it ends, which gives `slots_needed`. Links keep their state over two calls.
/// - Values are expressions: which ranks' contributions, combined in which order, of which block
///   and window. Each output must hold exactly what its kind says, and all ranks the same
///   expression. An n-way step is a left fold in rank order; the first two operands commute; each
///   combining step is rounded.
/// - Vector clocks that ignore waits for room find races: two accesses to one range, one of them a
///   write, must be ordered by program order, `after` and messages alone. A lent slice is read from
///   its push until its pop.
/// - One pass covers separate and in-place buffers. A rank's aliasing changes only its own memory,
///   never a message, so each rank is checked both ways and every mixture follows.
/// It knows no transport, no clock and no bytes.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/problem.hpp"
#include "schedule/schedule.hpp"

namespace ccoll {

enum class FindingKind : std::uint8_t {
  malformed,  ///< names a rank, lane, step, block or buffer that does not exist, or is too large
  links,      ///< pushes and pops of a link differ, or several lanes pop it
  deadlock,   ///< lanes wait for each other with any number of slots
  sizes,      ///< two ends, or a step's operands, disagree about a slice's elements
  undefined,  ///< reads from a place where nothing was stored
  result,     ///< an output holds the wrong contributions, or none
  finish,     ///< `finish` is missing, repeated, too early or on a contribution that is there twice
  order,      ///< ranks combine the same contributions in different orders
  race,       ///< two conflicting accesses are not ordered
  in_place,   ///< reads input that the output has overwritten, if they are the same memory
};

std::string_view to_string(FindingKind kind);

/// A defect; `message` is a sentence that names rank, lane, step, window and block.
struct Finding {
  FindingKind kind = FindingKind::malformed;
  std::string message;
};

struct VerifyOptions {
  /// Number of calls one after another on the same links.
  std::uint32_t calls = 2;
  /// Limit on the reported findings.
  std::size_t max_findings = 16;
};

/// Findings and measurements. Measurements are meaningful only without findings.
struct Report {
  std::vector<Finding> findings;
  /// Slots that every link needs so that the schedule never deadlocks.
  std::uint32_t slots_needed = 0;
  std::uint64_t windows = 0;
  /// Longest chain of messages of one window. Each message is sent after the one before was
  /// received (by program order and `after`, not only by data).
  std::uint64_t depth = 0;
  /// Most messages of any rank for one window.
  std::uint64_t max_messages = 0;
  /// Most elements that any rank sends in the whole call.
  std::uint64_t max_elems_sent = 0;
  /// Most blocks with elements in one message.
  std::uint32_t max_blocks_per_message = 0;
  /// Most roundings of a 16-bit float on its way to any result: one per combining step.
  std::uint32_t roundings = 0;
  /// By block, the order in which a result combines the ranks' contributions: "((1+2)+3)+0", where
  /// brackets enclose the terms of one step. It is for people. It is empty if nothing is combined,
  /// or with more than kMostRanksInOrders ranks.
  std::vector<std::string> orders = {};
  static constexpr Rank kMostRanksInOrders = 32;

  bool ok() const { return findings.empty(); }
  /// The findings, one per line.
  std::string text() const;
};

/// Verifies the programs of all ranks; `schedule` is called once per rank. `problem` is whole; if
/// sizes are private, each rank's slices follow from its own view of it. Costs about a microsecond
/// per step and window, plus the number of lanes for each step that receives.
Report verify(const Problem& problem, const Choice& choice, const Schedule& schedule,
              const VerifyOptions& options = {});

/// One sample of the sizes that a schedule must work for.
struct VerifyCase {
  std::string_view name;
  Problem problem;
  Choice choice;
};

/// The cases have counts 0, 1 and size - 1. Some have several windows with an uneven end, enough to
/// reuse two slots, also over two copies of the lanes. If the kind has ragged blocks, one case has
/// them, some empty. `blocks` is the number of parts that the programs cut the buffer into.
std::vector<VerifyCase> verify_cases(Kind kind, Algorithm algorithm, Rank size, Rank root,
                                     std::uint32_t blocks);

}  // namespace ccoll
