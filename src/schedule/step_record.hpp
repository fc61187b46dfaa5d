// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The events of a run, from an executor to an observer that records them.

#include <cstdint>

#include "core/signature.hpp"
#include "schedule/problem.hpp"

namespace ccoll {

/// A step that an executor has run for one window.
struct StepRecord {
  Rank rank = 0;
  std::uint16_t lane = 0;
  std::uint32_t step = 0;
  std::uint64_t window = 0;
  friend bool operator==(const StepRecord&, const StepRecord&) = default;
};

/// The event that a step has waited for. The numbers appear in files (docs/trace_format.md).
enum class Awaited : std::uint8_t {
  nothing = 0,  ///< it could run at the first look
  message = 1,
  room = 2,  ///< in a link: the peer has not yet taken its slices, or opened it
  step = 3,  ///< a step of another lane of the same rank
};

/// Gets every step with elements while an executor runs it. The holder of the communicator's owner
/// flag calls it.
class StepObserver {
 public:
  virtual ~StepObserver() = default;

  /// A run begins.
  virtual void begins(const Signature& signature, std::uint64_t sequence) = 0;
  /// Comes after begins(), for a run with blocks of different sizes, as this rank knows them.
  virtual void has_blocks(const Problem& /*as_seen*/) {}
  /// The lane's current step can run, and is about to. `what` is its last wait. `peer`, which had
  /// not sent or taken, has a meaning only for a message and for room.
  virtual void moves(std::uint16_t lane, Awaited what, Rank peer) = 0;
  /// The step has run, with a slice of so many bytes.
  virtual void ran(const StepRecord& step, std::size_t bytes) = 0;
  /// The run is over, and its peers have taken what it sent.
  virtual void ends() = 0;
};

}  // namespace ccoll
