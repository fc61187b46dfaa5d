// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A message that is handed on from rank to rank, as `--chain` gives the ranks.

#include "bench/measure/operations.hpp"

namespace ccoll::show {

/// Rank 0 sends its elements to rank 1, and each rank what has come to it to the next.
extern const bench::Operation kChain;

}  // namespace ccoll::show
