// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Files that people hand to a command.

#include <cstddef>
#include <string>

#include "core/result.hpp"

namespace ccoll::bench {

/// What stands in the file. Fails where it cannot be read, is empty or longer than `most_bytes`,
/// which also ends what never ends by itself.
Result<std::string> text_in(const std::string& path, std::size_t most_bytes);

}  // namespace ccoll::bench
