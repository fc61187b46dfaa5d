// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The verifier: executes a schedule symbolically and proves, for one Problem and Choice, that it
/// computes the right result, never deadlocks and never races on a buffer; or says what is wrong.
///
/// What is proven, and how:
/// - Programs have no wildcards, so one run over bounded links covers every interleaving: whether
/// it
///   ends, and what is computed, do not depend on timing. It is repeated with more slots per link
///   until it ends, which gives `slots_needed`. Links keep their state over two calls.
/// - Values are expressions: which ranks' contributions, combined in which order, of which block
/// and
///   window. Each output must hold exactly what its kind says, and all ranks the same expression
///   (an n-way step is a left fold in rank order; the first two operands commute; each combining
///   step is rounded).
/// - Races are found with vector clocks that ignore waits for room: two accesses to one range, one
///   of them a write, must be ordered by program order, `after` and messages alone. A lent slice is
///   read from its push until its pop.
/// - Separate and in-place buffers in one pass: what a rank's aliasing changes is its own memory
///   only, never a message, so each rank is checked both ways and every mixture follows.
/// Knows no links, no clock and no bytes.

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
  deadlock,   ///< lanes wait for each other whatever the number of slots
  sizes,      ///< two ends, or a step's operands, disagree about a slice's elements
  undefined,  ///< reads what nothing was stored to
  result,     ///< an output holds the wrong contributions, or none
  finish,     ///< `finish` is missing, repeated, too early or of what is there twice
  order,      ///< ranks combine the same contributions in different order
  race,       ///< two conflicting accesses are not ordered
  in_place,   ///< reads input that the output has overwritten where they are the same memory
};

std::string_view to_string(FindingKind kind);

/// Something wrong; `message` is a sentence that names rank, lane, step, window and block.
struct Finding {
  FindingKind kind = FindingKind::malformed;
  std::string message;
};

struct VerifyOptions {
  /// Calls one after another on the same links.
  std::uint32_t calls = 2;
  /// No more than this many are reported.
  std::size_t max_findings = 16;
};

/// What was found and measured. Measurements are meaningful where there are no findings.
struct Report {
  std::vector<Finding> findings;
  /// Slots that every link must have for the schedule never to deadlock.
  std::uint32_t slots_needed = 0;
  std::uint64_t windows = 0;
  /// Longest chain of messages of one window, each sent after the one before was received (by
  /// program order and `after`, not only by data).
  std::uint64_t depth = 0;
  /// Most messages that any rank sends for one window.
  std::uint64_t max_messages = 0;
  /// Most elements that any rank sends in the whole call.
  std::uint64_t max_elems_sent = 0;
  /// Most blocks with elements in one message.
  std::uint32_t max_blocks_per_message = 0;
  /// Most roundings of a 16-bit float on its way to any result: one per combining step.
  std::uint32_t roundings = 0;
  /// By block, in which order a result combines the ranks' contributions: "((1+2)+3)+0"; what one
  /// step combines stands together. For people: empty where nothing is combined, and beyond
  /// kMostRanksInOrders.
  std::vector<std::string> orders = {};
  static constexpr Rank kMostRanksInOrders = 32;

  bool ok() const { return findings.empty(); }
  /// The findings, a line each.
  std::string text() const;
};

/// Verifies the programs of all ranks; `schedule` is called once per rank. `problem` is whole, but
/// where sizes are private each rank's slices are those that its own view of it gives. Costs about
/// a microsecond per step and window, plus the number of lanes for each step that receives.
Report verify(const Problem& problem, const Choice& choice, const Schedule& schedule,
              const VerifyOptions& options = {});

/// One sample of the sizes that a schedule must work for.
struct VerifyCase {
  std::string_view name;
  Problem problem;
  Choice choice;
};

/// Counts 0, 1 and size - 1; several windows with an uneven end, enough to reuse two slots; the
/// same over two copies of the lanes; and ragged blocks, some empty, where the kind has them.
/// `blocks` is what the algorithm's programs cut the buffer into.
std::vector<VerifyCase> verify_cases(Kind kind, Algorithm algorithm, Rank size, Rank root,
                                     std::uint32_t blocks);

}  // namespace ccoll
