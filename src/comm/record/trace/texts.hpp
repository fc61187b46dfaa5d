// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The texts of a trace file: lines of a name, a space and a value. They say whose trace it is, and
/// how the calls of a plan are carried out. Parsing checks the text as one that anybody may have
/// written.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ccoll/types.hpp"
#include "comm/record/trace/format.hpp"
#include "core/result.hpp"
#include "schedule/problem.hpp"

namespace ccoll::trace {

/// Most ranks that a trace is believed to have.
inline constexpr Rank kMostRanks = 1 << 16;
/// Most elements that a buffer, or a block, is believed to have.
inline constexpr std::uint64_t kMostElements = std::uint64_t{1} << 48;

/// Bytes that a text takes in the file.
constexpr std::size_t filled_up(std::size_t text_bytes) {
  return (text_bytes + kEntryBytes - 1) / kEntryBytes * kEntryBytes;
}

struct About {
  std::string version;             ///< of ccoll
  std::uint64_t job = 0;           ///< tells jobs apart
  std::uint64_t communicator = 0;  ///< tells the job's communicators apart
  std::string name;                ///< the communicator's
  Rank rank = 0;
  Rank size = 1;
  std::vector<std::uint32_t> host_of;  ///< as Problem's
  std::string host;
  std::uint64_t process = 0;
  std::string clock;         ///< ranks with the same one share it
  std::int64_t wall_ns = 0;  ///< the time of day minus that clock
  friend bool operator==(const About&, const About&) = default;
};

std::string to_text(const About& about);
Result<About> parse_about(std::string_view text);

/// How calls are carried out: the input from which algorithms make programs.
struct Planned {
  Problem problem;  ///< by which it was chosen; of ragged blocks without their sizes
  bool ragged = false;
  Choice choice;
  DataType type = DataType::uint8;
  std::string op;
  friend bool operator==(const Planned&, const Planned&) = default;
};

std::string to_text(const Planned& planned);
/// `about` has the communicator's size and hosts.
Result<Planned> parse_planned(std::string_view text, const About& about);

}  // namespace ccoll::trace
