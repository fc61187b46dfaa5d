// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Looking up the tree of processes, as far as /proc shows it.

#include <string>

namespace ccoll {

/// "pid-start" of the nearest ancestor of this process whose command name (at most 15 characters)
/// is `name`, start being its start time in clock ticks, so that no two processes between two boots
/// share it; or empty when there is none.
std::string ancestor_named(const std::string& name);

}  // namespace ccoll
