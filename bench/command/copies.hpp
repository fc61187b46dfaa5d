// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "bench/measure/operations.hpp"

namespace ccoll::bench {

/// Text of `cc-bench explain`: how ordinary memory gets from one process of this host to another in
/// a call of so many bytes, what either way costs here, and with which one calls begin. Measures
/// the costs if no job has done so since this host was started. Empty for calls that reduce, since
/// those read slots in any case, and for calls whose data are short.
std::string copies_text(const Operation& op, std::uint64_t bytes);

}  // namespace ccoll::bench
