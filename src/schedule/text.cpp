// SPDX-License-Identifier: Apache-2.0
#include "schedule/text.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <vector>

#include "core/text.hpp"

namespace ccoll {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{64} << 20;

std::string operands_text(const std::vector<Operand>& operands) {
  std::string text;
  for (const Operand& operand : operands) {
    if (!text.empty()) text += " & ";
    text += fmt::format("{}[{}", to_string(operand.buffer), operand.block);
    if (operand.blocks != 1) {
      text += fmt::format("..{}", std::uint64_t{operand.block} + operand.blocks - 1);
    }
    text += ']';
  }
  return text;
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool is_word(char c) { return (c >= 'a' && c <= 'z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// A stranger's bytes must not reach a terminal unchanged.
std::string printable(std::string_view token) {
  constexpr std::size_t kShown = 20;
  std::string text;
  for (const char c : token.substr(0, kShown)) text += c >= ' ' && c <= '~' ? c : '?';
  return text;
}

/// The tokens of a text, line by line: words, numbers, and `-> .. [ ] : , + &`.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) { next_line(); }

  bool at_end() const { return ended_; }
  std::size_t line() const { return line_number_; }
  /// The current token; empty at the end of the line.
  std::string_view token() const { return token_; }

  void next_line() {
    do {
      if (rest_.empty()) {
        ended_ = true;
        token_ = {};
        return;
      }
      const std::size_t end = std::min(rest_.find('\n'), rest_.size());
      line_ = rest_.substr(0, end);
      line_ = line_.substr(0, line_.find('#'));
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      ++line_number_;
      next();
    } while (token_.empty());
  }

  void next() {
    while (!line_.empty() && is_space(line_.front())) line_.remove_prefix(1);
    std::size_t length = 0;
    if (!line_.empty() && is_word(line_.front())) {
      while (length < line_.size() && is_word(line_[length])) ++length;
    } else if (!line_.empty() && is_digit(line_.front())) {
      while (length < line_.size() && is_digit(line_[length])) ++length;
    } else if (line_.starts_with("->") || line_.starts_with("..")) {
      length = 2;
    } else if (!line_.empty()) {
      length = 1;
    }
    token_ = line_.substr(0, length);
    line_.remove_prefix(length);
  }

  bool accept(std::string_view expected) {
    if (ended_ || token_ != expected) return false;
    next();
    return true;
  }

 private:
  std::string_view rest_;
  std::string_view line_;
  std::string_view token_;
  std::size_t line_number_ = 0;
  bool ended_ = false;
};

/// A recursive-descent parser. Each function reads one thing; false means that `failure_` is set.
class Parser {
 public:
  explicit Parser(std::string_view text) : scan_(text) {}

  bool at_end() const { return scan_.at_end(); }
  tl::unexpected<Failure> failure() const { return tl::unexpected<Failure>(failure_); }

  bool program(Program& out) {
    if (!header(out)) return false;
    while (scan_.token() == "lane") {
      if (!lane(out)) return false;
    }
    return check_afters(out);
  }

  bool expect_end() { return scan_.at_end() || unexpected("'lane' or the end"); }

 private:
  bool fail_here(std::string reason) {
    failure_ = {ErrorKind::invalid_argument, fmt::format("line {}: {}", scan_.line(), reason), {}};
    return false;
  }
  bool unexpected(std::string_view expected) {
    const std::string found = scan_.at_end() ? "the end of the text"
                              : scan_.token().empty()
                                  ? "the end of the line"
                                  : fmt::format("'{}'", printable(scan_.token()));
    return fail_here(fmt::format("expected {}, found {}", expected, found));
  }
  bool word(std::string_view expected) {
    return scan_.accept(expected) || unexpected(fmt::format("'{}'", expected));
  }
  bool end_of_line() {
    if (!scan_.token().empty()) return unexpected("the end of the line");
    scan_.next_line();
    return true;
  }

  template <typename Integer>
  bool number(Integer& out, std::string_view what) {
    const std::string_view token = scan_.token();
    if (token.empty() || !is_digit(token.front())) return unexpected(what);
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), out);
    if (error != std::errc{}) {
      return fail_here(fmt::format("{} is at most {}, found {}", what,
                                   std::numeric_limits<Integer>::max(), printable(token)));
    }
    scan_.next();
    return true;
  }

  bool header(Program& out) {
    if (!word("program") || !word("rank") || !number(out.rank, "a rank") || !word("of") ||
        !number(out.size, "a number of ranks") || !word("blocks") ||
        !number(out.blocks, "a number of blocks")) {
      return false;
    }
    if (scan_.accept("stripes") && !number(out.stripes, "a number of stripes")) return false;
    if (out.rank >= out.size) return fail_here(fmt::format("rank {} of {}", out.rank, out.size));
    if (out.blocks == 0) return fail_here("0 blocks; there is at least 1");
    if (out.stripes == 0) return fail_here("0 stripes; there is at least 1");
    program_ = &out;
    return end_of_line();
  }

  bool lane(Program& out) {
    std::uint16_t number_given = 0;
    if (!word("lane") || !number(number_given, "a lane's number")) return false;
    if (number_given != out.lanes.size()) {
      return fail_here(
          fmt::format("lane {} where lane {} is next", number_given, out.lanes.size()));
    }
    Lane& lane = out.lanes.emplace_back();
    lane_number_ = number_given;
    if (scan_.accept("stripe") && !number(lane.stripe, "a stripe")) return false;
    if (lane.stripe >= out.stripes) {
      return fail_here(fmt::format("stripe {} of {}", lane.stripe, out.stripes));
    }
    if (scan_.accept("scratch") && !blocks(lane.scratch_block, lane.scratch_blocks)) return false;
    if (!end_of_line()) return false;
    while (!scan_.at_end() && !scan_.token().empty() && is_digit(scan_.token().front())) {
      if (!step(lane)) return false;
    }
    return true;
  }

  /// Reads "3" or "3..5".
  bool blocks(std::uint32_t& first, std::uint32_t& count) {
    if (!number(first, "a block")) return false;
    std::uint64_t last = first;
    if (scan_.accept("..") && !number(last, "a last block")) return false;
    if (last < first || last - first >= std::numeric_limits<std::uint32_t>::max()) {
      return fail_here(fmt::format("blocks {}..{} are not a range", first, last));
    }
    count = static_cast<std::uint32_t>(last - first + 1);
    return true;
  }

  bool step(Lane& lane) {
    std::uint32_t number_given = 0;
    if (!number(number_given, "a step's number")) return false;
    if (number_given != lane.steps.size()) {
      return fail_here(
          fmt::format("step {} where step {} is next", number_given, lane.steps.size()));
    }
    if (!word(":")) return false;
    Step& step = lane.steps.emplace_back();
    if (!sources(step)) return false;
    step.finish = scan_.accept("finish");
    if (scan_.accept("->") && !targets(step)) return false;
    if (scan_.accept("lend") && !lend(step.lend)) return false;
    if (scan_.accept("after") && !after(step)) return false;
    return end_of_line();
  }

  bool sources(Step& step) {
    if (scan_.accept("nothing")) return true;
    do {
      if (scan_.accept("recv")) {
        if (!receive(step)) return false;
      } else if (!step.local.empty()) {
        return fail_here("a second list of local operands; join the parts of one with '&'");
      } else if (!operands(step.local)) {
        return false;
      }
    } while (scan_.accept("+"));
    return true;
  }

  bool receive(Step& step) {
    Receive& receive = step.receives.emplace_back();
    receive.lane = lane_number_;
    if (!peer(receive.peer)) return false;
    return !scan_.accept("lane") || number(receive.lane, "a lane's number");
  }

  bool peer(Rank& out) {
    if (!number(out, "a rank")) return false;
    if (out < program_->size) return true;
    return fail_here(fmt::format("rank {} of {}", out, program_->size));
  }

  bool operands(std::vector<Operand>& list) {
    do {
      Operand& operand = list.emplace_back();
      if (!buffer(operand.buffer) || !word("[") || !blocks(operand.block, operand.blocks) ||
          !word("]")) {
        return false;
      }
    } while (scan_.accept("&"));
    return true;
  }

  bool buffer(Buffer& out) {
    for (const Buffer candidate : {Buffer::input, Buffer::output, Buffer::scratch}) {
      out = candidate;
      if (scan_.accept(to_string(candidate))) return true;
    }
    return unexpected("'recv', 'input', 'output' or 'scratch'");
  }

  bool targets(Step& step) {
    if (scan_.token() != "send") {
      if (!operands(step.store)) return false;
      if (!scan_.accept(",")) return true;
    }
    if (!word("send")) return false;
    do {
      if (!peer(step.sends.emplace_back())) return false;
    } while (!scan_.token().empty() && is_digit(scan_.token().front()));
    if (scan_.token() == ",") return fail_here("ranks are separated by blanks, as in send 1 2");
    return true;
  }

  bool lend(Lend& out) {
    for (const Lend candidate : {Lend::never, Lend::if_separate, Lend::always}) {
      out = candidate;
      if (scan_.accept(to_string(candidate))) return true;
    }
    return unexpected("'never', 'if_separate' or 'always'");
  }

  bool after(Step& step) {
    After& after = step.after.emplace();
    after_lines_.push_back(scan_.line());
    return word("lane") && number(after.lane, "a lane's number") && word("step") &&
           number(after.step, "a step's number");
  }

  /// This runs when all lanes are known.
  bool check_afters(const Program& program) {
    auto line = after_lines_.begin();
    for (const Lane& lane : program.lanes) {
      for (const Step& step : lane.steps) {
        if (!step.after) continue;
        const auto here = *line++;
        const bool is_there = step.after->lane < program.lanes.size() &&
                              step.after->step < program.lanes[step.after->lane].steps.size();
        if (is_there) continue;
        failure_ = {ErrorKind::invalid_argument,
                    fmt::format("line {}: rank {} has no lane {} step {} to come after", here,
                                program.rank, step.after->lane, step.after->step),
                    {}};
        return false;
      }
    }
    return true;
  }

  Scanner scan_;
  Failure failure_;
  const Program* program_ = nullptr;
  std::uint16_t lane_number_ = 0;
  std::vector<std::size_t> after_lines_;  ///< lines of each `after`, in order
};

std::optional<tl::unexpected<Failure>> too_long(std::string_view text) {
  if (text.size() <= kMaxTextBytes) return std::nullopt;
  return fail(ErrorKind::invalid_argument, "a schedule's text is at most {} bytes, not {}",
              kMaxTextBytes, text.size());
}

}  // namespace

std::string_view to_string(Buffer buffer) {
  switch (buffer) {
    case Buffer::input:
      return "input";
    case Buffer::output:
      return "output";
    case Buffer::scratch:
      return "scratch";
  }
  return "unknown";
}

std::string_view to_string(Lend lend) {
  switch (lend) {
    case Lend::never:
      return "never";
    case Lend::if_separate:
      return "if_separate";
    case Lend::always:
      return "always";
  }
  return "unknown";
}

std::string to_string(const Step& step, std::uint16_t lane) {
  std::string text;
  for (const Receive& receive : step.receives) {
    if (!text.empty()) text += " + ";
    text += fmt::format("recv {}", receive.peer);
    if (receive.lane != lane) text += fmt::format(" lane {}", receive.lane);
  }
  if (!step.local.empty())
    text += fmt::format("{}{}", text.empty() ? "" : " + ", operands_text(step.local));
  if (text.empty()) text = "nothing";
  if (step.finish) text += " finish";
  if (!step.store.empty()) text += fmt::format(" -> {}", operands_text(step.store));
  if (!step.sends.empty()) text += step.store.empty() ? " -> send" : ", send";
  for (const Rank peer : step.sends) text += fmt::format(" {}", peer);
  if (step.lend != Lend::never) text += fmt::format(" lend {}", to_string(step.lend));
  if (step.after) text += fmt::format(" after lane {} step {}", step.after->lane, step.after->step);
  return text;
}

std::string to_string(const Program& program) {
  std::string text =
      fmt::format("program rank {} of {} blocks {}", program.rank, program.size, program.blocks);
  if (program.stripes != 1) text += fmt::format(" stripes {}", program.stripes);
  text += '\n';
  for (std::size_t number = 0; number < program.lanes.size(); ++number) {
    const Lane& lane = program.lanes[number];
    text += fmt::format("lane {}", number);
    if (lane.stripe != 0) text += fmt::format(" stripe {}", lane.stripe);
    if (lane.scratch_blocks != 0) {
      text += fmt::format(" scratch {}..{}", lane.scratch_block,
                          std::uint64_t{lane.scratch_block} + lane.scratch_blocks - 1);
    }
    text += '\n';
    for (std::size_t step = 0; step < lane.steps.size(); ++step) {
      text += fmt::format("  {}: {}\n", step,
                          to_string(lane.steps[step], static_cast<std::uint16_t>(number)));
    }
  }
  return text;
}

std::string to_string(std::span<const Program> programs) {
  std::string text;
  for (const Program& program : programs) {
    if (!text.empty()) text += '\n';
    text += to_string(program);
  }
  return text;
}

Result<Program> parse_program(std::string_view text) {
  if (auto failure = too_long(text)) return *failure;
  Parser parser(text);
  Program program;
  if (!parser.program(program) || !parser.expect_end()) return parser.failure();
  return program;
}

Result<std::vector<Program>> parse_programs(std::string_view text) {
  if (auto failure = too_long(text)) return *failure;
  Parser parser(text);
  std::vector<Program> programs;
  while (!parser.at_end()) {
    Program& program = programs.emplace_back();
    if (!parser.program(program)) return parser.failure();
    if (program.rank != programs.size() - 1 || program.size != programs.front().size) {
      return fail(ErrorKind::invalid_argument,
                  "program {} is of rank {} of {}; expected rank {} of {}", programs.size() - 1,
                  program.rank, program.size, programs.size() - 1, programs.front().size);
    }
  }
  if (programs.empty() || programs.size() != programs.front().size) {
    if (programs.empty())
      return fail(ErrorKind::invalid_argument,
                  "there is no program: expected one for each rank, like 'program rank 0 of 2 "
                  "blocks 1'");
    // The header may claim any number of ranks.
    const auto first = programs.size(), last = std::size_t{programs.front().size} - 1;
    if (first == last)
      return fail(ErrorKind::invalid_argument,
                  "the program of rank {} is missing: expected {} in all", first, last + 1);
    return fail(ErrorKind::invalid_argument,
                "the programs of ranks {} to {} are missing: expected {} in all", first, last,
                last + 1);
  }
  return programs;
}

}  // namespace ccoll
