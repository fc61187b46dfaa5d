// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Reads the kernel's files in /proc and /sys.

#include <string>

#include "core/result.hpp"

namespace ccoll {

/// The whole file. Empty if there is no such file, or it may not be read. Error{exhausted} if this
/// process lacks the means right now: an empty result would then be wrong.
Result<std::string> kernel_text(const std::string& path);

/// The file's first line, without its end.
Result<std::string> kernel_line(const std::string& path);

}  // namespace ccoll
