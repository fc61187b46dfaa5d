// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The cause of a job's failure or hang, in a few lines for people: from its ranks' dumps, and from
/// their launcher's knowledge of the processes. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "comm/record/dump/dump.hpp"

namespace ccoll::dump {

inline constexpr std::size_t kMostLines = 10;

/// A process of the job, by its rank there.
struct Process {
  enum class End : std::uint8_t { runs, well, status, signal };
  std::uint32_t rank = 0;
  std::uint64_t process = 0;
  End end = End::runs;
  /// The exit status, or the signal's name.
  std::string with = {};
  /// Whether the launcher ended it because another had failed.
  bool told = false;
  /// Whether it was stopped (SIGSTOP) when another had failed.
  bool stopped = false;
};

/// At most kMostLines, the likely cause first; empty if nothing is known.
std::vector<std::string> diagnose(const std::vector<Dump>& dumps,
                                  const std::vector<Process>& processes);

/// "all_reduce #412 (1 MiB float32 sum, ring)".
std::string call_text(const Call& call);
/// "4 B", "1 MiB", "1.5 GiB".
std::string bytes_text(std::uint64_t bytes);

}  // namespace ccoll::dump
