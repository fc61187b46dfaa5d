// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One part of a picture through all rounds: a rank's program, or a block's path.

#include <cstddef>
#include <cstdint>
#include <string>

#include "show/model/picture.hpp"

namespace ccoll::show {

/// "receive-reduce-store-send": what a step does; one without messages copies.
std::string step_kind(const Step& step);

/// A rank's program, with the rounds in which its steps receive and send, in lines of `width`
/// columns. It omits whether a message may be lent; `--format schedule` shows that.
std::string program_text(const Picture& picture, Rank rank, std::size_t width);

/// The contributions to a block on their path from rank to rank. In an all_to_all the block is all
/// ranks' data for rank `block`.
std::string block_text(const Picture& picture, std::uint32_t block, std::size_t width);

}  // namespace ccoll::show
