// SPDX-License-Identifier: Apache-2.0
#include "show/text/palette.hpp"

#include <fmt/format.h>

namespace ccoll::show {

std::string painted(std::string_view text, Tone tone) {
  return fmt::format("\x1b[48;5;{};38;5;{}m{}\x1b[0m", tone.background, tone.text, text);
}

}  // namespace ccoll::show
