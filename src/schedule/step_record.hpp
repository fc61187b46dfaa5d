// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What an executor tells of a run, to those who record it.

#include <cstdint>

#include "core/signature.hpp"
#include "schedule/problem.hpp"

namespace ccoll {

/// A step that an executor carried out for one window.
struct StepRecord {
  Rank rank = 0;
  std::uint16_t lane = 0;
  std::uint32_t step = 0;
  std::uint64_t window = 0;
  friend bool operator==(const StepRecord&, const StepRecord&) = default;
};

/// What a step has waited for. The numbers stand in files (docs/trace_format.md).
enum class Awaited : std::uint8_t {
  nothing = 0,  ///< it could run when it was first looked at
  message = 1,
  room = 2,  ///< in a link: the peer has not yet taken what is in it, or opened it
  step = 3,  ///< of another lane of the same rank
};

/// Is told of every step with elements while an executor runs it, by the holder of the
/// communicator's owner flag.
class StepObserver {
 public:
  virtual ~StepObserver() = default;

  /// A run begins.
  virtual void begins(const Signature& signature, std::uint64_t sequence) = 0;
  /// After begins(), of a run with blocks of different sizes: what this rank knows of them.
  virtual void has_blocks(const Problem& /*as_seen*/) {}
  /// The lane's present step can run, and is about to. What it last waited for; `peer`, who had not
  /// sent or taken, means something only for a message and for room.
  virtual void moves(std::uint16_t lane, Awaited what, Rank peer) = 0;
  /// It has run, with a slice of so many bytes.
  virtual void ran(const StepRecord& step, std::size_t bytes) = 0;
  /// The run is over, and what it sent is taken.
  virtual void ends() = 0;
};

}  // namespace ccoll
