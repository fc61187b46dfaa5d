// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How much memory a host has left, and what a row's buffers take of it. Linux promises more memory
/// than there is, and kills a process that uses what was promised; so sizes are looked at before.

#include <cstdint>
#include <filesystem>
#include <optional>

#include "bench/command/sizes.hpp"
#include "bench/measure/operations.hpp"
#include "ccoll/types.hpp"

namespace ccoll::bench {

/// Bytes that this host can still give: MemAvailable, or what is left of the control groups that
/// this process is in, if less. Nothing where neither is known. `root`: of the file system.
std::optional<std::uint64_t> available_memory(const std::filesystem::path& root = "/");

/// The calls whose buffers are asked about.
struct Buffers {
  const Operation& operation;
  DataType type;
  int ranks;       ///< in all
  int ranks_here;  ///< of them, on one host
  bool in_place;
};

/// Bytes that the buffers of a row of size `bytes` take on one host, the root's where there is one.
std::uint64_t bytes_on_host(const Buffers& buffers, std::uint64_t bytes);

/// `range` with an end whose buffers take at most `limit` on a host. Its end is below its beginning
/// where none do.
SizeRange within_memory(const SizeRange& range, const Buffers& buffers, std::uint64_t limit);

}  // namespace ccoll::bench
