// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What all ranks have counted in a run, for --json.

#include <nlohmann/json_fwd.hpp>

#include "ccoll/communicator.hpp"

namespace ccoll::bench {

/// One rank's.
nlohmann::json counters_json(int rank, const Counters& counters);

/// All ranks' by rank, at rank 0; null elsewhere. Collective.
nlohmann::json gather_counters(Communicator& communicator);

}  // namespace ccoll::bench
