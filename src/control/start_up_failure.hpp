// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The failure of a start-up in words: which ranks came and which did not. Pure, except for one
/// request to the store.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "ccoll/store.hpp"
#include "core/result.hpp"

namespace ccoll::control {

/// A rank's state when its patience ended.
struct Standing {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  bool table_complete = false;
  bool parent_met = false;                ///< true for rank 0
  std::vector<std::uint32_t> unreported;  ///< children whose subtree is not complete
  std::vector<std::uint32_t> unmet;       ///< ring neighbours without a connection
  std::vector<std::uint32_t> declined;    ///< ascending: their keys say only why they do not come
  std::string last_trouble;  ///< of a connection that this rank tried to open; or empty
  std::string refusal;       ///< why this process refused a connection, if it did; or empty
};

/// "60 s", "0.25 s".
std::string in_seconds(std::chrono::milliseconds duration);

/// "start-up: 2 of 8 ranks did not come within 60 s: ranks 3, 7 (known so far: ranks 0-2, 4-6)".
Failure missing_ranks(std::uint32_t size, std::chrono::milliseconds timeout,
                      const std::vector<std::uint32_t>& missing,
                      const std::vector<std::uint32_t>& came);

/// The whole verdict. Asks the store once which ranks have come; if it does not answer, infers from
/// the tree which ranks may be missing.
Failure judge(const Standing& standing, std::chrono::milliseconds timeout, Store& store);

}  // namespace ccoll::control
