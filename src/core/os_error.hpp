// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The system's errors in words.

#include <string>
#include <system_error>

namespace ccoll {

/// The system's text for that error (an errno). If this process has no descriptor left, it includes
/// the limit: "Too many open files: this process may have 20 (ulimit -n)".
std::string os_error(int code);
std::string os_error(const std::error_code& error);

/// Whether it means that descriptors, memory or processes are exhausted, here or on the host.
bool ran_out(const std::error_code& error);

}  // namespace ccoll
