// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Files that are written at the end of a run, whole: until then, and when the run fails, what was
/// there stays.

#include <string>
#include <string_view>

#include "core/result.hpp"

namespace ccoll::bench {

/// Whether write_whole may do so later, as far as can be told now. Writes nothing.
Status check_writable(const std::string& path);

/// Replaces the file, or writes to what is no file (a pipe, a terminal).
Status write_whole(const std::string& path, std::string_view text);

}  // namespace ccoll::bench
