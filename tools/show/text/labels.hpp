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

/// "A", "B", … "Z", "AA": blocks have letters, so that nobody takes them for ranks.
std::string block_name(std::uint32_t block);

/// "A", "A-D", "B,E", "9 blocks".
std::string blocks_text(std::vector<std::uint32_t> blocks);

/// How ranks are written beside blocks: "rank 3", or "3" where columns are few.
enum class RankStyle { word, number };

/// What of a message is told: its blocks as the sender or the receiver numbers them, or in an
/// all_to_all whose they are and for whom.
std::string pieces_text(const Rounds& rounds, const Message& message,
                        std::uint32_t MessageBlock::*number);

/// "C -> rank 1, D -> ranks 1 2": all that `rank` sends in that round. Empty when it sends nothing.
std::string sent_text(const Rounds& rounds, const Round& round, Rank rank,
                      RankStyle style = RankStyle::word);

/// "A += from rank 3, B = from rank 2": all that is sent to it; += is combined, = is copied.
std::string received_text(const Rounds& rounds, const Round& round, Rank rank,
                          RankStyle style = RankStyle::word);

/// "2,500,000": digits in groups of three.
std::string grouped(std::uint64_t number);

}  // namespace ccoll::show
