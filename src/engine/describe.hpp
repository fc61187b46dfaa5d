// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A call in words, for errors: "all_reduce of 10 float32, sum".

#include <string>

#include "core/signature.hpp"

namespace ccoll {

std::string describe(const Signature& signature);

/// Whether each two of its ranks know their sizes for each other, and nobody else does.
bool has_private_sizes(const Signature& signature);

/// "rank 1 called all_reduce of 12 float32, sum, as call 5, but rank 0 called …".
std::string describe_mismatch(std::uint32_t rank, const Signature& mine, std::uint64_t my_sequence,
                              std::uint32_t peer, const Signature& theirs,
                              std::uint64_t their_sequence);

}  // namespace ccoll
