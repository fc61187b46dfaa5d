// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A traced job as JSON for Perfetto and Chrome. Each rank is a process with tracks for each
/// communicator: one of calls, one of messages and one per lane, with work ("step") and waiting
/// ("wait"). Arrows lead from sending steps to receiving steps.

#include <cstdint>
#include <optional>
#include <string>

#include "show/model/traced_job.hpp"

namespace ccoll::show {

/// The whole job; or, if a call is given, its group's activity from its beginning to its end.
Result<std::string> perfetto_json(const TracedJob& job, const TracedGroup& group,
                                  std::optional<std::uint64_t> call);

}  // namespace ccoll::show
