// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Files written as a whole at the end of a run: until then, and if the run fails, the old content
/// stays.

#include <string>
#include <string_view>

#include "core/result.hpp"

namespace ccoll::bench {

/// Whether write_whole will probably succeed later. Writes nothing.
Status check_writable(const std::string& path);

/// Replaces the file, or writes to something that is no file (a pipe, a terminal).
Status write_whole(const std::string& path, std::string_view text);

}  // namespace ccoll::bench
