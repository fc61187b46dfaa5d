// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Step, lane, program: an algorithm's result as data. The engine executes it, the verifier proves
/// it, the simulator times it and cc-show draws it. Immutable values: no pointers, no run state.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "schedule/problem.hpp"

namespace ccoll {

/// The current window's slices of `blocks` consecutive blocks, one after another. Numbers are taken
/// mod the program's number of blocks.
struct Operand {
  Buffer buffer = Buffer::input;
  std::uint32_t block = 0;
  std::uint32_t blocks = 1;
  friend bool operator==(const Operand&, const Operand&) = default;
};

/// The next slice of the link from rank `peer`, pushed there by that rank's lane `lane`.
struct Receive {
  Rank peer = 0;
  std::uint16_t lane = 0;
  friend bool operator==(const Receive&, const Receive&) = default;
};

/// A step of another lane of the same rank that must have finished the same window.
struct After {
  std::uint16_t lane = 0;
  std::uint32_t step = 0;
  friend bool operator==(const After&, const After&) = default;
};

/// Whether a sent slice may be read in place, from the caller's or a lane's memory, until the
/// receiver has popped it. The verifier proves that nothing writes it meanwhile. If something could
/// write it, the slice is copied when pushed.
enum class Lend : std::uint8_t {
  never,
  if_separate,  ///< only when input and output are different memory
  always,
};

/// A step waits for all receives and for room in all its outgoing links. It combines what it
/// received with `local` in rank order (own data have the own rank's place). Then it stores, and
/// sends.
///
/// - The result's elements are laid out as the concatenation of `local`'s operands, and of
///   `store`'s. If both are present they have the same sizes, and so has every received slice. A
///   step has at least one of them.
/// - Receives are in ascending order of peer, each peer once.
/// - A slice without elements is neither sent nor received.
struct Step {
  std::vector<Receive> receives;
  std::vector<Operand> local;
  std::vector<Operand> store;
  std::vector<Rank> sends;  ///< over the links of this lane
  std::optional<After> after;
  /// The result holds every rank's contribution; `avg` divides here.
  bool finish = false;
  Lend lend = Lend::never;
  friend bool operator==(const Step&, const Step&) = default;
};

/// Steps run in order, window after window. A lane that cannot move never stops another.
struct Lane {
  std::vector<Step> steps;
  /// Scratch holds blocks [scratch_block, scratch_block + scratch_blocks) mod the program's blocks,
  /// one slice of each.
  std::uint32_t scratch_block = 0;
  std::uint32_t scratch_blocks = 0;
  /// This lane takes the windows w with w mod the program's `stripes` == stripe.
  std::uint16_t stripe = 0;
  friend bool operator==(const Lane&, const Lane&) = default;
};

/// One rank's part of a schedule.
struct Program {
  Rank rank = 0;
  Rank size = 1;
  std::uint32_t blocks = 1;  ///< parts that the operation's buffers are cut into
  std::uint16_t stripes = 1;
  std::vector<Lane> lanes;
  friend bool operator==(const Program&, const Program&) = default;
};

/// All ranks' programs, made rank by rank on demand.
using Schedule = std::function<Program(Rank)>;

/// The program (which has one stripe) with `copies` times its lanes; each copy takes its share of
/// the windows. Copy s of lane l is lane l × copies + s, also in receives and afters. That number
/// does not depend on a rank's number of lanes, which may differ between ranks.
Program striped(Program program, std::uint16_t copies);

}  // namespace ccoll
