// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The counters of all ranks of a run, for --json.

#include <nlohmann/json_fwd.hpp>

#include "ccoll/communicator.hpp"

namespace ccoll::bench {

/// One rank's counters.
nlohmann::json counters_json(int rank, const Counters& counters);

/// All ranks' counters by rank, at rank 0; null elsewhere. Collective.
nlohmann::json gather_counters(Communicator& communicator);

}  // namespace ccoll::bench
