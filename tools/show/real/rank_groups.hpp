// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Groups of ranks from `--groups`, and chains of ranks from `--chain`.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace ccoll::show {

/// Ranks of the job, indexed by their number in the group.
using RankGroup = std::vector<std::uint32_t>;

/// "0,2/1,3": ranks 0 and 2 together, and 1 and 3. A rank may be in at most one group. `option` is
/// the given option, `item` its word for a group.
Result<std::vector<RankGroup>> rank_groups_of(const std::string& text, std::uint32_t ranks,
                                              std::string_view option = "--groups",
                                              std::string_view item = "group");

/// "0,2".
std::string group_text(const RankGroup& group);

}  // namespace ccoll::show
