// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Facts about processes from /proc: this one's ancestors, and whether a process is ending.

#include <string>

namespace ccoll {

/// "pid-start" of this process's nearest ancestor whose command name (at most 15 characters) is
/// `name`. The start is its start time in clock ticks, so that no two processes between two boots
/// share it. Empty if there is no such ancestor.
std::string ancestor_named(const std::string& name);

/// Whether that process is ending or has ended: all of it, or its first thread while its others
/// still end. False if there is no such process.
bool is_ending(int pid);

}  // namespace ccoll
