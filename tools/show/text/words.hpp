// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Plain sentences about what a picture shows.

#include <cstddef>
#include <string>

#include "show/model/picture.hpp"

namespace ccoll::show {

/// What happens in a round (from 1), who sends to whom and what becomes of it; 0: what is there
/// before the first. `after` is the board after that round.
std::string round_sentence(const Picture& picture, const Board& after);

/// "combining 2/3": where a round stands in the row of those that do the same; empty where nothing
/// is combined.
std::string phase_text(const Picture& picture, std::size_t round);

/// How many of the blocks that ranks must have in the end are there.
struct Progress {
  std::size_t complete = 0;
  std::size_t all = 0;
};
Progress progress_of(const Rounds& rounds, const Board& board);

/// What the verifier has proven of what is shown, or that it is wrong; explanation() says why.
std::string verdict_text(const Picture& picture);

}  // namespace ccoll::show
