// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Data flow of a schedule: walks an execution's steps with symbolic values, checks the slices that
/// move and the outputs at the end, and measures messages, elements and depth.

#include <functional>
#include <span>

#include "verify/combination.hpp"
#include "verify/execute.hpp"
#include "verify/verify.hpp"

namespace ccoll::detail {

/// A block's slice of one window: an expression over the ranks' contributions to that block.
struct Value {
  Expression expression = kUndefined;
  std::uint32_t origin = 0;  ///< window × blocks + block
  friend bool operator==(const Value&, const Value&) = default;
};

/// A step that has run.
struct StepSeen {
  StepRun at;
  std::uint64_t depth = 0;  ///< messages on the longest path to what it has received
  /// Its result: a value for each block of its layout that has elements in this window. Empty if no
  /// block has any.
  std::span<const Value> result;
};

/// Called for every step, in the order in which they run.
using Watch = std::function<void(const StepSeen&, const Combinations&)>;

/// Walks `execution`, which finished with `slots` slots, and fills the measurements of `report`.
void check_dataflow(const Resolved& schedule, const Execution& execution, std::uint64_t slots,
                    Findings& findings, Report& report, const Watch& watch = {});

}  // namespace ccoll::detail
