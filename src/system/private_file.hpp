// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Small files that hold a secret, or go with one.

#include <cstddef>
#include <string>
#include <string_view>

#include "core/result.hpp"

namespace ccoll {

/// The content of the file at `path`: a regular one of this user, which no other user may read or
/// write, of at most `most_bytes`. `what`, such as "token file", begins every failure.
Result<std::string> read_private_file(std::string_view what, const std::string& path,
                                      std::size_t most_bytes);

/// The same for any file that this user may read.
Result<std::string> read_file(std::string_view what, const std::string& path,
                              std::size_t most_bytes);

}  // namespace ccoll
