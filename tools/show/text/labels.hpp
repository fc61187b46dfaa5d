// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Short names for contents and messages, the same wherever they are shown.

#include <cstdint>
#include <string>
#include <vector>

#include "rounds/rounds.hpp"

namespace ccoll::show {

/// How many ranks' contributions can be named individually.
inline constexpr Rank kMostNamed = 8;

/// The contributions in a content: "0+1+3", "all", or "5/16" if it is not `named`; one that is in
/// twice as "1x2". Data that is only copied has its rank's name; in an all_to_all "0>2" is rank 0's
/// block for rank 2. "?": spoilt by a finding.
std::string label_of(const Rounds& rounds, std::uint32_t content, bool named = true);

/// "A", "B", … "Z", "AA": blocks have letters, so that they are not mistaken for ranks.
std::string block_name(std::uint32_t block);

/// "A", "A-D", "B,E", "9 blocks".
std::string blocks_text(std::vector<std::uint32_t> blocks);

/// How ranks are written beside blocks: "rank 3", or "3" if columns are few.
enum class RankStyle { word, number };

/// A message's text: its blocks in the sender's or the receiver's numbering, or in an all_to_all
/// their origins and destinations.
std::string pieces_text(const Rounds& rounds, const Message& message,
                        std::uint32_t MessageBlock::*number);

/// "C -> rank 1, D -> ranks 1 2": what `rank` sends in that round. Empty if it sends nothing.
std::string sent_text(const Rounds& rounds, const Round& round, Rank rank,
                      RankStyle style = RankStyle::word);

/// "A += from rank 3, B = from rank 2": what it receives; += is combined, = is copied.
std::string received_text(const Rounds& rounds, const Round& round, Rank rank,
                          RankStyle style = RankStyle::word);

/// "2,500,000": digits in groups of three.
std::string grouped(std::uint64_t number);

}  // namespace ccoll::show
