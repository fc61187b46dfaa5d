// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the kernel tells in files of /proc and /sys.

#include <string>

#include "core/result.hpp"

namespace ccoll {

/// All of it. Empty where there is no such file, or it may not be read. Error{exhausted} where this
/// process lacks what it takes to read it just now: what it then took to be so would be wrong.
Result<std::string> kernel_text(const std::string& path);

/// Its first line, without the end of it.
Result<std::string> kernel_line(const std::string& path);

}  // namespace ccoll
