// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A call that moves byte strings, as one rank sees it before any has told the others its length.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ccoll/communicator.hpp"
#include "comm/call/arguments.hpp"
#include "core/result.hpp"
#include "schedule/problem.hpp"

namespace ccoll {

struct ByteCall {
  std::string_view name;
  std::uint8_t shown_as;  ///< while lengths are exchanged
  Collective collective;  ///< that moves the strings
  std::size_t length;     ///< of this rank's string
  int root = 0;
};

/// Checks all that can be wrong on one rank alone: once lengths are exchanged, others wait for it.
/// If all ranks pass, the lengths' sum does not overflow.
Status check_byte_call(const ByteCall& call, Rank size, const CallOptions& options);

}  // namespace ccoll
