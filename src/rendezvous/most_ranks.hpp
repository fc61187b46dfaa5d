// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ccoll {

/// The most ranks of a job. Every rank keeps something for each other one, so a mistyped size would
/// take all memory before any rank is missed.
inline constexpr int kMostRanksOfJob = 1 << 20;

}  // namespace ccoll
