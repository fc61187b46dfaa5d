// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The options that must be the same on all ranks, or they would run different programs over
/// different transports and wait for each other.

#include <cstdint>

#include "ccoll/communicator.hpp"
#include "core/result.hpp"

namespace ccoll {

/// Transport, algorithm, lanes and flags in one number, for the address table; refuses names that
/// do not exist.
Result<std::uint32_t> agreement_of(const CommunicatorOptions& options);

/// "transport tcp, algorithm by cost, lanes by cost, deterministic, checksums".
std::string agreement_text(std::uint32_t agreement);

}  // namespace ccoll
