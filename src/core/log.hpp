// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Where ccoll's remarks go: standard error, never the program's own output.

#include <spdlog/logger.h>

namespace ccoll {

/// Warnings and worse are shown. Thread-safe.
spdlog::logger& log();

}  // namespace ccoll
