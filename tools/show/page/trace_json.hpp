// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A traced job as the JSON that Perfetto and Chrome open: a process for each rank; in it, for each
/// communicator, a track of calls, one of messages and one for each lane, with what it did ("step")
/// and what it waited for ("wait"); and arrows from the steps that sent to those that received.

#include <cstdint>
#include <optional>
#include <string>

#include "show/model/traced_job.hpp"

namespace ccoll::show {

/// All of the job; or, where a call is named, what its group did from its beginning to its end.
Result<std::string> perfetto_json(const TracedJob& job, const TracedGroup& group,
                                  std::optional<std::uint64_t> call);

}  // namespace ccoll::show
