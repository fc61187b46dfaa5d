// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Vector clocks over an execution: they show whether one step's run always precedes another's.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "verify/execute.hpp"

namespace ccoll::detail {

/// The run `later` must always come after the run `before`.
struct OrderQuery {
  std::uint32_t later;   ///< index in the trace
  std::uint32_t before;  ///< index in the trace; none: in some order it does not come before
  // The reason for the query:
  std::uint32_t access;  ///< the run whose access conflicts with `later`'s
  Buffer buffer;
  std::uint32_t block;
  Buffer earlier_buffer;
  bool lent;
};

/// Indices of the queries (in order of `later`) whose answer is no. The cost is the number of lanes
/// for each run, up to the last run with a query.
std::vector<std::size_t> unordered_queries(const Resolved& schedule, const Execution& execution,
                                           std::uint64_t slots,
                                           const std::vector<OrderQuery>& queries);

}  // namespace ccoll::detail
