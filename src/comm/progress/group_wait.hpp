// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Waiting for operations of several communicators at once.

#include <vector>

#include "ccoll/work.hpp"

namespace ccoll {

/// Waits until all are over. This thread moves on all communicators that they belong to, so that
/// none of them stands still while it waits for another.
void wait_for_all(const std::vector<Work>& works);

}  // namespace ccoll
