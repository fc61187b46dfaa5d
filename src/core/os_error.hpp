// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Errors of the system in words.

#include <string>
#include <system_error>

namespace ccoll {

/// What the system says of that error (an errno); where this process has no descriptor left, also
/// how many it may have: "Too many open files: this process may have 20 (ulimit -n)".
std::string os_error(int code);
std::string os_error(const std::error_code& error);

/// Whether it means that descriptors, memory or processes have run out, here or on the host.
bool ran_out(const std::error_code& error);

}  // namespace ccoll
