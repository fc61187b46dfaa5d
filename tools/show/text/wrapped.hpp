// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Long sentences on narrow screens.

#include <cstddef>
#include <string>
#include <string_view>

namespace ccoll::show {

/// `text` in lines of at most `width` characters, broken at spaces, each behind `indent`. Ends with
/// a newline unless it is empty.
std::string wrapped(std::string_view text, std::size_t width, std::string_view indent = "");

}  // namespace ccoll::show
