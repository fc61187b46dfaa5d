// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A call in words, for errors: "all_reduce of 10 float32, sum".

#include <cstdint>
#include <optional>
#include <string>

#include "core/signature.hpp"

namespace ccoll {

std::string describe(const Signature& signature);

/// A call's parts in words; empty where it has no such part, or where all have a hash of it only.
struct CallWords {
  std::string kind;  ///< "all_reduce", "all_gather_v"
  std::string type;
  std::string op;
  std::optional<std::uint32_t> root;
};
CallWords words_of(const Signature& signature);

/// Whether each two of its ranks know their sizes for each other, and nobody else does.
bool has_private_sizes(const Signature& signature);

/// "rank 1 called all_reduce of 12 float32, sum, as call 5, but rank 0 called …".
std::string describe_mismatch(std::uint32_t rank, const Signature& mine, std::uint64_t my_sequence,
                              std::uint32_t peer, const Signature& theirs,
                              std::uint64_t their_sequence);

}  // namespace ccoll
