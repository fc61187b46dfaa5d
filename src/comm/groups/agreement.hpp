// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The options that must be the same on all ranks, or they would run different programs over
/// different transports and wait for each other.

#include <cstdint>
#include <string>
#include <string_view>

#include "ccoll/communicator.hpp"
#include "core/result.hpp"

namespace ccoll {

/// Transport, algorithm, lanes and flags in one number, for the address table; refuses names that
/// do not exist.
Result<std::uint32_t> agreement_of(const CommunicatorOptions& options);

/// The settings that differ, by their variables, for example
/// "CCOLL_ALGO: rank 0 has by cost, rank 1 has ring; CCOLL_CHECKSUM: rank 0 has 0, rank 1 has 1".
std::string disagreement_text(std::uint32_t one, std::uint32_t other, std::string_view name_of_one,
                              std::string_view name_of_other);

}  // namespace ccoll
