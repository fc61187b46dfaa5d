// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One rank's walk over all rows that the options ask for.

#include "ccoll/communicator.hpp"
#include "options.hpp"
#include "report.hpp"

namespace ccoll::bench {

/// Collective. `report` is null except on rank 0. Returns false where any rank found a wrong
/// element; the same on all ranks. Throws ccoll::Error where a call fails.
bool measure_rows(Communicator& communicator, const Options& options, Report* report);

}  // namespace ccoll::bench
