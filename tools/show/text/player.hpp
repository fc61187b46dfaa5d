// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Steps through a picture's rounds with the arrow keys.

#include "show/text/screen.hpp"

namespace ccoll::show {

/// Runs until the user quits. The terminal's width replaces that of `style`.
void play(const Picture& picture, const Style& style);

}  // namespace ccoll::show
