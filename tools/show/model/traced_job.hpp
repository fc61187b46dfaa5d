// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The traces of a job's ranks (CCOLL_TRACE), on one clock: nanoseconds since the first record of
/// any rank.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "trace/analysis.hpp"
#include "trace/read.hpp"

namespace ccoll::show {

/// One communicator.
struct TracedGroup {
  std::uint64_t id = 0;
  std::string name;
  Rank size = 1;
  std::vector<std::optional<trace::Trace>> ranks;  ///< none: it has no file
  std::uint64_t first = 0;                         ///< its first recorded time

  /// The sequence numbers of all calls that any rank recorded, ascending.
  std::vector<std::uint64_t> calls() const;
};

struct TracedJob {
  std::uint64_t id = 0;
  std::vector<TracedGroup> groups;  ///< by their first time
  std::uint64_t last = 0;           ///< the last time of all
  std::size_t hosts = 0;
  std::vector<std::string> remarks;  ///< notes about the files for the reader
};

/// Reads a directory's files ccoll.*.trace. If there are several jobs, `job` selects one.
Result<TracedJob> read_job(const std::string& directory, const std::string& job);

/// The communicator with that name or id; without a name the one with the most calls.
Result<const TracedGroup*> group_named(const TracedJob& job, const std::string& name);

/// A call as all ranks recorded it, and its planned execution.
struct TracedCall {
  trace::Planned planned;
  trace::WholeCall whole;
  std::uint64_t sequence = 0;
  Signature signature;
  std::uint64_t begin = 0;  ///< on the first rank to call
  std::uint64_t end = 0;    ///< on the last, as far as known
  std::size_t missing = 0;  ///< ranks without a record of it
  std::size_t unended = 0;  ///< ranks on which it has no end
};

/// Fails if the group has no such call, or its records contradict each other.
Result<TracedCall> call_in(const TracedGroup& group, std::uint64_t sequence);

/// A rank's record of it; null if there is none.
const trace::CallRun* find_call(const trace::Trace& trace, std::uint64_t sequence);

/// "all_reduce", "all_gather_v", "split".
std::string operation_text(const Signature& signature);
std::uint64_t bytes_of(const Signature& signature, const trace::Planned& planned);

}  // namespace ccoll::show
