// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What /proc shows of processes: of those above this one in the tree, and of those below.

#include <string>

namespace ccoll {

/// "pid-start" of the nearest ancestor of this process whose command name (at most 15 characters)
/// is `name`, start being its start time in clock ticks, so that no two processes between two boots
/// share it; or empty when there is none.
std::string ancestor_named(const std::string& name);

/// Whether that process is about to be over, or is: all of it, or its first thread while others of
/// it still end. False where there is none such.
bool is_ending(int pid);

}  // namespace ccoll
