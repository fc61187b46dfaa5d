// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The share of the machine's processors that control groups leave to this process.

#include <string>

namespace ccoll {

/// Time that control groups allow this process, in cores: the smallest quota of its own groups and
/// of all above them, of version 1 and 2. It is infinite if none sets a quota. `root` is the
/// directory with /proc and the mounted hierarchies, for tests.
double quota_cores(const std::string& root = "");

}  // namespace ccoll
