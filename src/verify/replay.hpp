// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Replays what really ran: holds an executor to what the verifier has proven, by walking its
/// recorded steps with symbolic values instead of an order of the verifier's own.

#include <span>

#include "schedule/step_record.hpp"
#include "verify/verify.hpp"

namespace ccoll {

/// Checks the steps of one call by all ranks, in the order in which they ran (steps without
/// elements need not be recorded): each lane's in order and complete, each after what it waits
/// for, no slice popped before it was pushed and no more than `slots` in a link, no races, and the
/// right result.
Report replay(const Problem& problem, const Choice& choice, const Schedule& schedule,
              std::span<const StepRecord> records, std::uint64_t slots);

}  // namespace ccoll
