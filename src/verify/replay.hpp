// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Replays a real run: it checks that an executor does what the verifier has proven. It walks the
/// recorded steps with symbolic values, not an order of the verifier's own.

#include <span>

#include "schedule/step_record.hpp"
#include "verify/verify.hpp"

namespace ccoll {

/// Checks the steps of one call by all ranks, in the order in which they ran; steps without
/// elements need no record. Each lane's steps must be in order and complete, and each must follow
/// what it waits for. No slice is popped before it was pushed, and a link has at most `slots`.
/// There are no races, and the result is right.
Report replay(const Problem& problem, const Choice& choice, const Schedule& schedule,
              std::span<const StepRecord> records, std::uint64_t slots);

}  // namespace ccoll
