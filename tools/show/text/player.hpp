// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Going through a picture's rounds with the arrow keys.

#include "show/text/screen.hpp"

namespace ccoll::show {

/// Until the user quits. The terminal's width stands for that of `style`.
void play(const Picture& picture, const Style& style);

}  // namespace ccoll::show
