// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Files that users give to a command.

#include <cstddef>
#include <string>

#include "core/result.hpp"

namespace ccoll::bench {

/// The file's content. Fails if it cannot be read, is empty or longer than `most_bytes`, which also
/// stops endless input.
Result<std::string> text_in(const std::string& path, std::size_t most_bytes);

}  // namespace ccoll::bench
