// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The terminal that somebody looks at: whether there is one, how large it is, and its keys.

#include <cstddef>
#include <string_view>

#include "bench/command/columns.hpp"

namespace ccoll::show {

/// Whether both standard input and output are a terminal that can move its cursor.
bool is_interactive();

/// Whether standard output is a terminal that shows colours and NO_COLOR does not forbid them.
bool wants_colour();

struct TerminalSize {
  std::size_t columns = bench::kUsualColumns;
  std::size_t lines = 40;
};
/// Of standard output; the default where it is no terminal.
TerminalSize terminal_size();

enum class Key { left, right, up, down, home, end, values, help, quit, resized, other };

/// A screen of its own, with keys that come as they are typed, for as long as it lives. However it
/// ends, by a signal too, the terminal is left as it was. One at a time.
class RawTerminal {
 public:
  RawTerminal();
  ~RawTerminal();
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

  /// In place of what was there before.
  void draw(std::string_view text);
  /// Waits for one. The end of the input is `quit`.
  Key next_key();

 private:
  Key escape_sequence();
};

}  // namespace ccoll::show
