// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Structs that begin with their size, a magic number and a version, as programs of any year have
/// them.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "faces/nccl/abi.hpp"

namespace ccoll::nccl {

struct VersionedHead {
  std::size_t size;
  std::uint32_t magic;
  std::uint32_t version;
};

/// The expected beginning of a struct, and words for the error.
struct VersionedKind {
  std::string_view name;         ///< the argument's
  std::string_view initializer;  ///< the macro that sets this beginning
  std::uint32_t magic = kMagic;
  std::size_t least = sizeof(VersionedHead);  ///< its least number of bytes
  ncclResult_t refusal = ncclInvalidArgument;
};

/// Reads no more than the struct's size says. Throws Refusal.
VersionedHead read_head(const void* from, const VersionedKind& kind);

}  // namespace ccoll::nccl
