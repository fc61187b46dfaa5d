// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How much of the machine's processors control groups leave to this process.

#include <string>

namespace ccoll {

/// Cores' worth of time that control groups allow this process: the least quota of its own groups
/// and of all above them, of version 1 and 2. Infinite where none sets one. `root`: the directory
/// in which /proc and the mounted hierarchies lie, for tests.
double quota_cores(const std::string& root = "");

}  // namespace ccoll
