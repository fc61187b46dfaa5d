// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Signals by the names that people give in settings.

#include <string>

#include "core/result.hpp"

namespace ccoll {

/// Of "USR1", "USR2", "QUIT", or a real-time signal, "RTMIN+3"; each also with "SIG" before it.
Result<int> signal_named(const std::string& name);

}  // namespace ccoll
