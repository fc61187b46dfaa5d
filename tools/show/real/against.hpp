// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A schedule of one's own against the library's: the same operation on the same numbers, over the
/// same kind of links, by the same engine.

#include <string>

#include "core/result.hpp"
#include "show/real/execute.hpp"

namespace ccoll::show {

struct Against {
  std::string text;          ///< a table: how long each takes, and whether the results are the same
  bool all_the_same = true;  ///< but for what floats lose when they are rounded in another order
};

/// `own`: what came of executing `picture`, timed. `width`: columns.
Result<Against> against_built_ins(const Picture& picture, const Executed& own,
                                  const std::string& transport, std::size_t width);

}  // namespace ccoll::show
