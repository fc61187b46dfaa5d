// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What a schedule computes: walks an execution's steps with symbolic values, checks the slices
/// that move and the outputs at the end, and measures messages, elements and depth.

#include "schedule/execute.hpp"
#include "schedule/verify.hpp"

namespace ccoll::detail {

/// Walks `execution`, which finished with `slots` slots, and fills the measurements of `report`.
void check_dataflow(const Resolved& schedule, const Execution& execution, std::uint64_t slots,
                    Findings& findings, Report& report);

}  // namespace ccoll::detail
