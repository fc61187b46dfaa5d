// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One part of a picture through all rounds: a rank's program, or a block's way.

#include <cstdint>
#include <string>

#include "show/model/picture.hpp"

namespace ccoll::show {

/// "receive-reduce-store-send": which of these a step does; a step without messages copies.
std::string step_kind(const Step& step);

/// The program that a rank runs, with the rounds in which its steps receive and send.
std::string program_text(const Picture& picture, Rank rank);

/// From rank to rank, what becomes of the contributions to a block. In an all_to_all the block is
/// what every rank has for rank `block`.
std::string block_text(const Picture& picture, std::uint32_t block);

}  // namespace ccoll::show
