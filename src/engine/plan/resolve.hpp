// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Makes a program ready to run: opens its links, and finds out once what all runs have in common.

#include <cstddef>
#include <utility>
#include <vector>

#include "core/result.hpp"
#include "engine/links.hpp"
#include "engine/plan/block_layout.hpp"
#include "engine/plan/lanes.hpp"
#include "engine/plan_request.hpp"

namespace ccoll {

struct ReadyProgram {
  std::vector<ReadyLane> lanes;
  std::vector<std::pair<SendLink*, Rank>> outgoing;  ///< every link the program sends on, once
  std::vector<ReceiveLink*> incoming;                ///< and receives on
  std::size_t most_sources = 1;                      ///< of a step
};

Result<ReadyProgram> resolve(const PlanRequest& request, LinkTable& links);

/// Makes the lanes' short steps. False if a run with contiguous buffers cannot be short: it has
/// several windows, or the blocks of a step do not follow each other in memory.
bool make_short(std::vector<ReadyLane>& lanes, const BlockLayout& layout);

}  // namespace ccoll
