// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Plain sentences about a picture.

#include <cstddef>
#include <string>

#include "show/model/picture.hpp"

namespace ccoll::show {

/// The events of a round (from 1): its senders, receivers and results; 0: the state before the
/// first. `after` is the board after that round.
std::string round_sentence(const Picture& picture, const Board& after);

/// "combining 2/3": the position of a round among those that do the same; empty if nothing is
/// combined.
std::string phase_text(const Picture& picture, std::size_t round);

/// How many of the ranks' result blocks are complete.
struct Progress {
  std::size_t complete = 0;
  std::size_t all = 0;
};
Progress progress_of(const Rounds& rounds, const Board& board);

/// The verifier's proof about the picture, or that it is wrong; explanation() gives the reason.
std::string verdict_text(const Picture& picture);

}  // namespace ccoll::show
