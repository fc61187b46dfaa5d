// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Reads trace files, which may come from anyone or be truncated.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/record/trace/format.hpp"
#include "comm/record/trace/texts.hpp"
#include "core/result.hpp"
#include "core/signature.hpp"

namespace ccoll::trace {

/// A step of one window. begin ≤ moved ≤ end, on the trace's clock.
struct StepRun {
  std::uint16_t lane = 0;
  std::uint32_t step = 0;
  std::uint32_t window = 0;
  Awaited awaited = Awaited::nothing;
  Rank peer = 0;  ///< below the communicator's size
  std::uint32_t bytes = 0;
  std::uint64_t begin = 0;
  std::uint64_t moved = 0;
  std::uint64_t end = 0;
  friend bool operator==(const StepRun&, const StepRun&) = default;
};

/// Some of the counts of a call's blocks: those from `first` on.
struct BlockCounts {
  std::uint32_t first = 0;
  std::array<std::uint64_t, BlocksEntry::kCounts> counts = {};
  friend bool operator==(const BlockCounts&, const BlockCounts&) = default;
};

struct CallRun {
  std::uint64_t sequence = 0;
  std::uint32_t plan = 0;  ///< index into the trace's plans
  Signature signature;     ///< only count, root, kind, type and op are set
  std::uint64_t begin = 0;
  std::optional<std::uint64_t> end;  ///< none: it failed, or the trace ends before
  std::vector<BlockCounts> blocks;   ///< known counts of ragged ones; the rest is 0 unless empty
  std::vector<StepRun> steps;        ///< in the order in which they ended
  friend bool operator==(const CallRun&, const CallRun&) = default;
};

struct MessageRun {
  bool is_send = false;
  Rank peer = 0;
  std::uint32_t tag = 0;
  std::uint64_t bytes = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  friend bool operator==(const MessageRun&, const MessageRun&) = default;
};

/// When the recorder wrote to its file, which takes the caller's time.
struct WriteRun {
  std::uint64_t bytes = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  friend bool operator==(const WriteRun&, const WriteRun&) = default;
};

struct Trace {
  std::string path;
  About about;
  std::vector<Planned> plans;
  std::vector<CallRun> calls;  ///< by sequence, ascending
  std::vector<MessageRun> messages;
  std::vector<WriteRun> writes;
  /// Notes for the reader: that it ends early, or has entries of a later version.
  std::vector<std::string> remarks;
};

/// The time moved later, or earlier; limited to the representable range.
std::uint64_t moved_by(std::uint64_t time, std::int64_t offset);

/// Fails if the file is no trace or is inconsistent, naming it and the byte; a truncated file is
/// read as far as it goes.
Result<Trace> read_trace(const std::string& path);
/// The same for a file's bytes; `path` is for messages.
Result<Trace> parse_trace(const std::string& path, std::string_view bytes);

}  // namespace ccoll::trace
