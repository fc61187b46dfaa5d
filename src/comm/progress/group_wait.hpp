// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Waiting for operations of several communicators at once.

#include <vector>

#include "ccoll/work.hpp"

namespace ccoll {

class Progress;

/// Waits until all are over. This thread moves on all communicators that they belong to, so that
/// none of them stands still while it waits for another.
void wait_for_all(const std::vector<Work>& works);

/// Whether this thread is in a wait_for_all() that holds the communicator's owner flag.
bool is_held_by_group_wait(const Progress& progress);

}  // namespace ccoll
