// SPDX-License-Identifier: Apache-2.0
#include "show/text/player.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "show/text/terminal.hpp"

namespace ccoll::show {

namespace {

constexpr std::string_view kHelp =
    "Space -> on   <- back   Home End   up down scroll   v values   ? signs   q quit";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

class Player {
 public:
  Player(const Picture& picture, const Style& style)
      : picture_(picture), style_(style), last_(picture.rounds.rounds.size()) {}

  void run() {
    RawTerminal terminal;
    for (Key key = Key::resized; key != Key::quit; key = terminal.next_key()) {
      react(key);
      terminal.draw(screenful());
    }
  }

 private:
  void react(Key key) {
    switch (key) {
      case Key::left:
        go_to(at_ == 0 ? 0 : at_ - 1);
        break;
      case Key::right:
        go_to(std::min(at_ + 1, last_));
        break;
      case Key::home:
        go_to(0);
        break;
      case Key::end:
        go_to(last_);
        break;
      case Key::up:
        if (scrolled_ > 0) --scrolled_;
        break;
      case Key::down:
        ++scrolled_;
        break;
      case Key::values:
        style_.values = !style_.values.value_or(true);
        break;
      case Key::help:
        has_legend_ = !has_legend_;
        break;
      case Key::quit:
      case Key::resized:
      case Key::other:
        break;
    }
  }

  void go_to(std::size_t round) {
    at_ = round;
    scrolled_ = 0;
  }

  std::string screenful() {
    const TerminalSize size = terminal_size();
    style_.width = size.columns;
    const Screen screen(picture_, style_);
    Board board(picture_.rounds);
    while (board.round() < at_) board.advance();
    std::string text = at_ == 0 ? screen.introduction() : screen.title();
    if (has_legend_ && at_ > 0) text += screen.legend();
    text += "\n" + screen.round(board);
    if (at_ == last_) text += "\n" + screen.conclusion();
    return cut(lines_of(text), size.lines);
  }

  /// The lines that fit above the keys.
  std::string cut(const std::vector<std::string>& lines, std::size_t height) {
    const std::size_t room = std::max<std::size_t>(height, 4) - 2;
    scrolled_ = std::min(scrolled_, lines.size() - std::min(lines.size(), room));
    std::string text;
    for (std::size_t i = scrolled_; i < std::min(scrolled_ + room, lines.size()); ++i) {
      text += lines[i] + "\n";
    }
    const std::size_t below = lines.size() - std::min(scrolled_ + room, lines.size());
    if (below > 0) return text + fmt::format("... {} more lines\n{}", below, kHelp);
    return text + "\n" + std::string(kHelp);
  }

  const Picture& picture_;
  Style style_;
  const std::size_t last_;
  std::size_t at_ = 0;
  std::size_t scrolled_ = 0;
  bool has_legend_ = false;  ///< in every round, not only at the start
};

}  // namespace

void play(const Picture& picture, const Style& style) { Player(picture, style).run(); }

}  // namespace ccoll::show
