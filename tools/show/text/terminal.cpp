// SPDX-License-Identifier: Apache-2.0
#include "show/text/terminal.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "system/variables.hpp"

namespace ccoll::show {

namespace {

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l";  // alternate screen, no cursor
constexpr std::string_view kLeave = "\x1b[?25h\x1b[?1049l";
constexpr std::string_view kClear = "\x1b[H\x1b[2J";
/// The bytes of a key's sequence arrive together; a lone Escape is one byte.
constexpr int kSequenceMs = 50;
constexpr char kControlC = 3;
constexpr char kControlD = 4;
constexpr char kControlZ = 26;
constexpr char kEscape = 27;

/// Signals that end a process that does not handle them.
constexpr std::array kEnding = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGABRT, SIGSEGV,
                                SIGBUS, SIGFPE,  SIGILL, SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU};

/// The terminal's original state; global for the signal handler.
termios before;

/// Signals for redrawing the screen. They are blocked except while waiting for a key, so that one
/// that arrives between drawing and waiting is not lost.
constexpr std::array kRedrawing = {SIGWINCH, SIGCONT};
sigset_t while_waiting;

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// Async-signal-safe.
void leave() {
  write_all(kLeave);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

void enter() {
  termios raw = before;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  write_all(kEnter);
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  ::sigaction(signal, &action, nullptr);
}

/// Ends or stops as the signal does by default, once this handler is over.
void end_by(int signal) {
  leave();
  handle(signal, SIG_DFL);
  ::raise(signal);
}

/// A thread that waits for a key then redraws its screen.
void go_on(int) {
  handle(SIGTSTP, end_by);
  enter();
}

void wake(int) {}

bool is_dumb() { return read_variable("TERM").value_or("dumb") == "dumb"; }

/// The next byte within `timeout_ms` (-1: any time), or none: then a redraw or an end.
enum class Got { byte, nothing, interrupted, end };
Got read_byte(char& byte, int timeout_ms) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  const timespec timeout{timeout_ms / 1000, timeout_ms % 1000 * 1'000'000L};
  const int ready = ::ppoll(&input, 1, timeout_ms < 0 ? nullptr : &timeout, &while_waiting);
  if (ready < 0) return errno == EINTR ? Got::interrupted : Got::end;
  if (ready == 0) return Got::nothing;
  return ::read(STDIN_FILENO, &byte, 1) == 1 ? Got::byte : Got::end;
}

}  // namespace

bool is_interactive() {
  return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1 && !is_dumb();
}

bool wants_colour() {
  return ::isatty(STDOUT_FILENO) == 1 && !is_dumb() && !read_variable("NO_COLOR");
}

TerminalSize terminal_size() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    return {};
  }
  return {size.ws_col, size.ws_row};
}

RawTerminal::RawTerminal() {
  ::tcgetattr(STDIN_FILENO, &before);
  for (const int signal : kEnding) handle(signal, end_by);
  handle(SIGTSTP, end_by);
  handle(SIGCONT, go_on);
  handle(SIGWINCH, wake);
  sigset_t redrawing;
  ::sigemptyset(&redrawing);
  for (const int signal : kRedrawing) ::sigaddset(&redrawing, signal);
  ::sigprocmask(SIG_BLOCK, &redrawing, &while_waiting);
  for (const int signal : kRedrawing) ::sigdelset(&while_waiting, signal);
  enter();
}

RawTerminal::~RawTerminal() {
  leave();
  for (const int signal : kEnding) handle(signal, SIG_DFL);
  for (const int signal : {SIGTSTP, SIGCONT, SIGWINCH}) handle(signal, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &while_waiting, nullptr);
}

void RawTerminal::draw(std::string_view text) {
  write_all(std::string(kClear) + std::string(text));
}

Key RawTerminal::next_key() {
  char byte = 0;
  switch (read_byte(byte, -1)) {
    case Got::interrupted:
      return Key::resized;
    case Got::nothing:
    case Got::end:
      return Key::quit;
    case Got::byte:
      break;
  }
  switch (byte) {
    case 'q':
    case kControlC:
    case kControlD:
      return Key::quit;
    case kControlZ:
      ::raise(SIGTSTP);
      return next_key();  // the screen is entered again during that wait
    case ' ':
    case 'l':
    case 'n':
    case '\n':
    case '\r':
      return Key::right;
    case 'h':
    case 'p':
      return Key::left;
    case 'j':
      return Key::down;
    case 'k':
      return Key::up;
    case 'g':
      return Key::home;
    case 'G':
      return Key::end;
    case 'v':
      return Key::values;
    case '?':
      return Key::help;
    case kEscape:
      return escape_sequence();
    default:
      return Key::other;
  }
}

/// "[C", "OC", "[1~" and the like, after an Escape.
Key RawTerminal::escape_sequence() {
  char byte = 0;
  if (read_byte(byte, kSequenceMs) != Got::byte || (byte != '[' && byte != 'O')) return Key::other;
  if (read_byte(byte, kSequenceMs) != Got::byte) return Key::other;
  const char first = byte;
  // Numbers and modifiers precede the letter or tilde that ends a sequence.
  while ((byte >= '0' && byte <= '9') || byte == ';') {
    if (read_byte(byte, kSequenceMs) != Got::byte) return Key::other;
  }
  switch (byte) {
    case 'A':
      return Key::up;
    case 'B':
      return Key::down;
    case 'C':
      return Key::right;
    case 'D':
      return Key::left;
    case 'H':
      return Key::home;
    case 'F':
      return Key::end;
    case '~':
      return first == '1' || first == '7'   ? Key::home
             : first == '4' || first == '8' ? Key::end
             : first == '5'                 ? Key::left   // page up
             : first == '6'                 ? Key::right  // page down
                                            : Key::other;
    default:
      return Key::other;
  }
}

}  // namespace ccoll::show
