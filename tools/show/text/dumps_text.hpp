// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Dumps of flight recorders (docs/diagnosis.md) as text: the last calls of all ranks side by side,
/// and the ranks that are behind.

#include <cstddef>
#include <optional>
#include <string>

#include "core/result.hpp"

namespace ccoll::show {

/// Empty if the directory holds no dumps, or holds traces, which contain more. In lines of `width`
/// columns.
Result<std::optional<std::string>> dumps_text(const std::string& directory, std::size_t width);

}  // namespace ccoll::show
