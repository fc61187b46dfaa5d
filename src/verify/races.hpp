// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Whether two accesses to one range, one of them a write, can happen at once. Order comes from
/// program order, `after`, and messages (push before pop). It never comes from waits for room,
/// which depend on the number of slots. Calls are ordered: a call ends when its lanes have ended
/// and all that it lent is popped.

#include "verify/execute.hpp"

namespace ccoll::detail {

/// Walks `execution`, which finished with `slots` slots, and reports the races.
void check_races(const Resolved& schedule, const Execution& execution, std::uint64_t slots,
                 Findings& findings);

}  // namespace ccoll::detail
