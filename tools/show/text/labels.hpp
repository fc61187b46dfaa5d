// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Short names for what is held and what is sent, the same wherever they are shown.

#include <cstdint>
#include <string>
#include <vector>

#include "rounds/rounds.hpp"

namespace ccoll::show {

/// How many of the ranks' contributions can be named one by one.
inline constexpr Rank kMostNamed = 8;

/// Whose contributions a content holds: "0+1+3", "all", or "5/16" where it is not `named`; one that
/// is in twice as "1x2". What is only copied is named by its rank; of an all_to_all "0>2" is rank
/// 0's block for rank 2. "?": spoilt by a finding.
std::string label_of(const Rounds& rounds, std::uint32_t content, bool named = true);

/// "b0", "b0-3", "b1,4", "9 blocks".
std::string blocks_text(std::vector<std::uint32_t> blocks);

/// What of a message is told: its blocks as the sender or the receiver numbers them, or in an
/// all_to_all whose they are and for whom.
std::string pieces_text(const Rounds& rounds, const Message& message,
                        std::uint32_t MessageBlock::*number);

/// "b2 -> 1, b3 -> 1 2": all that `rank` sends in that round. Empty when it sends nothing.
std::string sent_text(const Rounds& rounds, const Round& round, Rank rank);

/// "b0 += from 3, b1 = from 2": all that is sent to it; += is combined, = is copied.
std::string received_text(const Rounds& rounds, const Round& round, Rank rank);

}  // namespace ccoll::show
