// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A user's schedule against the library's: the same operation on the same numbers, over the same
/// kind of links, by the same engine.

#include <string>

#include "core/result.hpp"
#include "show/real/execute.hpp"

namespace ccoll::show {

struct Against {
  std::string text;          ///< a table: the times, and whether the results agree
  bool all_the_same = true;  ///< except for floats rounded in another order
};

/// `own`: the timed result of executing `picture`. `width`: columns.
Result<Against> against_built_ins(const Picture& picture, const Executed& own,
                                  const std::string& transport, std::size_t width);

}  // namespace ccoll::show
