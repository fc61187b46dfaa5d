// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The user's terminal: whether there is one, its size, and its keys.

#include <cstddef>
#include <string_view>

#include "bench/command/columns.hpp"

namespace ccoll::show {

/// Whether standard input and output are both a terminal that can move its cursor.
bool is_interactive();

/// Whether standard output is a terminal with colours and NO_COLOR is not set.
bool wants_colour();

struct TerminalSize {
  std::size_t columns = bench::kUsualColumns;
  std::size_t lines = 40;
};
/// The size of standard output; the default if it is no terminal.
TerminalSize terminal_size();

enum class Key { left, right, up, down, home, end, values, help, quit, resized, other };

/// A separate screen with unbuffered keys while it lives. However it ends, even by a signal, the
/// terminal is restored. Only one at a time.
class RawTerminal {
 public:
  RawTerminal();
  ~RawTerminal();
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

  /// Replaces the screen's content.
  void draw(std::string_view text);
  /// Waits for a key. The end of the input is `quit`.
  Key next_key();

 private:
  Key escape_sequence();
};

}  // namespace ccoll::show
