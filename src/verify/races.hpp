// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Whether two accesses to one range, one of them a write, can happen at once. Order comes from
/// program order, `after`, and messages (push before pop); never from waiting for room, which is
/// there or not as the number of slots has it. Calls are ordered: one ends when its lanes have
/// ended and all it lent is popped.

#include "verify/execute.hpp"

namespace ccoll::detail {

/// Walks `execution`, which finished with `slots` slots.
void check_races(const Resolved& schedule, const Execution& execution, std::uint64_t slots,
                 Findings& findings);

}  // namespace ccoll::detail
