// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Reads small files whole: the kernel's in /proc and /sys, and those of users.

#include <cstddef>
#include <string>
#include <string_view>

#include "core/result.hpp"

namespace ccoll {

/// A file of the kernel's. Empty if there is no such file, or it may not be read. Error{exhausted}
/// if this process lacks the means right now: an empty result would then be wrong.
Result<std::string> kernel_text(const std::string& path);

/// Its first line, without the end of the line.
Result<std::string> kernel_line(const std::string& path);

/// The content of the file at `path`: a regular one of this user, which no other user may read or
/// write, of at most `most_bytes`. `what`, such as "token file", begins every failure.
Result<std::string> read_private_file(std::string_view what, const std::string& path,
                                      std::size_t most_bytes);

/// The same for a regular file that this user may read, whoever else may.
Result<std::string> read_regular_file(std::string_view what, const std::string& path,
                                      std::size_t most_bytes);

/// The same for any file that this user may read, also a pipe.
Result<std::string> read_file(std::string_view what, const std::string& path,
                              std::size_t most_bytes);

}  // namespace ccoll
