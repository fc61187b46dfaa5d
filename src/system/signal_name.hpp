// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Signals by the names that settings use.

#include <string>

#include "core/result.hpp"

namespace ccoll {

/// The signal "USR1", "USR2", "QUIT", or a real-time one such as "RTMIN+3"; "SIG" may precede.
Result<int> signal_named(const std::string& name);

}  // namespace ccoll
