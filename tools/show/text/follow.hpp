// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One part of a picture through all rounds: a rank's program, or a block's way.

#include <cstddef>
#include <cstdint>
#include <string>

#include "show/model/picture.hpp"

namespace ccoll::show {

/// "receive-reduce-store-send": which of these a step does; a step without messages copies.
std::string step_kind(const Step& step);

/// The program that a rank runs, with the rounds in which its steps receive and send, in lines of
/// `width` columns. Whether a message may be read where it lies is not told: `--format schedule`
/// does.
std::string program_text(const Picture& picture, Rank rank, std::size_t width);

/// From rank to rank, what becomes of the contributions to a block. In an all_to_all the block is
/// what every rank has for rank `block`.
std::string block_text(const Picture& picture, std::uint32_t block, std::size_t width);

}  // namespace ccoll::show
