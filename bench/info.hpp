// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The commands that measure nothing: what this machine and build can do, and why a call gets the
/// algorithm that it gets.

#include <string>

#include "core/result.hpp"
#include "options.hpp"

namespace ccoll::bench {

std::string info_text();
Result<std::string> explain_text(const Options& options);

}  // namespace ccoll::bench
