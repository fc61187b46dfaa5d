// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Effects of a call's Reduction on its plan and its signature.

#include <optional>

#include "algorithms/algorithms.hpp"
#include "ccoll/reduction.hpp"
#include "core/signature.hpp"

namespace ccoll {

/// The order in which its algorithm must combine. `deterministic`: the result must depend on the
/// contributions alone (CommunicatorOptions::deterministic).
CombineOrder order_of(const Reduction& reduction, DataType type, bool deterministic);
/// The kernel's operation; none if the caller's function is called instead.
std::optional<ReduceOp> kernel_op(const Reduction& reduction);
/// Makes the reduction part of the call's signature.
void sign(const Reduction& reduction, Signature& signature);

}  // namespace ccoll
