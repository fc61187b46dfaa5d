// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A host's free memory, and the needs of a row's buffers. Linux promises more memory than it has
/// and kills processes that use it, so sizes are checked in advance.

#include <cstdint>
#include <filesystem>
#include <optional>

#include "bench/command/sizes.hpp"
#include "bench/measure/operations.hpp"
#include "ccoll/types.hpp"

namespace ccoll::bench {

/// Bytes that this host can still provide: MemAvailable, or the room in this process's control
/// groups if less. Empty if neither is known. `root` is the file system's.
std::optional<std::uint64_t> available_memory(const std::filesystem::path& root = "/");

/// The calls whose buffers are counted.
struct Buffers {
  const Operation& operation;
  DataType type;
  int ranks;       ///< in all
  int ranks_here;  ///< on one host
  bool in_place;
};

/// Bytes of the buffers of a row of size `bytes` on one host; the root's if there is one.
std::uint64_t bytes_on_host(const Buffers& buffers, std::uint64_t bytes);

/// Limits the end of `range` so that its buffers take at most `limit` on a host. The end is below
/// the beginning if none fit.
SizeRange within_memory(const SizeRange& range, const Buffers& buffers, std::uint64_t limit);

}  // namespace ccoll::bench
