// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A message that is passed from rank to rank, in the order of `--chain`.

#include "bench/measure/operations.hpp"

namespace ccoll::show {

/// Rank 0 sends its elements to rank 1, and each rank forwards what it has received.
extern const bench::Operation kChain;

}  // namespace ccoll::show
