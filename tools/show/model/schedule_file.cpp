// SPDX-License-Identifier: Apache-2.0
#include "show/model/schedule_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <sstream>

#include "bench/report/text_file.hpp"
#include "core/text.hpp"
#include "schedule/text.hpp"

namespace ccoll::show {

namespace {

/// The limit of parse_programs.
constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr std::array<std::string_view, 5> kKeys = {"ranks", "count", "root", "op", "type"};

std::vector<std::string> words_of(std::string_view line) {
  std::istringstream stream{std::string(line.substr(0, line.find('#')))};
  return {std::istream_iterator<std::string>(stream), {}};
}

/// The first line that is neither empty nor a comment.
struct Header {
  std::size_t number = 0;
  std::size_t end = 0;  ///< where the rest of the text begins
  std::vector<std::string> words;
};

Header header_of(std::string_view text) {
  Header header;
  while (header.end < text.size() && header.words.empty()) {
    const std::size_t end = std::min(text.find('\n', header.end), text.size());
    header.words = words_of(text.substr(header.end, end - header.end));
    header.end = std::min(end + 1, text.size());
    ++header.number;
  }
  return header;
}

Status set_number(const std::string& key, const std::string& text, std::uint64_t most,
                  std::uint64_t& out) {
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, out);
  if (error == std::errc() && stopped == end && out <= most) return {};
  return fail(ErrorKind::invalid_argument, "{} {}: expected a number up to {}", key, text, most);
}

Status set_word(CallWords& words, const std::string& key, const std::string& value) {
  std::uint64_t number = 0;
  if (key == "ranks") {
    CCOLL_TRY(set_number(key, value, kMostRanksDrawn, number));
    words.ranks = static_cast<std::uint32_t>(number);
    if (number != 0) return {};
    return fail(ErrorKind::invalid_argument, "ranks 0: expected at least 1");
  }
  if (key == "count") {
    CCOLL_TRY(set_number(key, value, kMostElements, number));
    words.count = number;
  } else if (key == "root") {
    CCOLL_TRY(set_number(key, value, kMostRanksDrawn, number));
    words.root = static_cast<std::uint32_t>(number);
  } else if (key == "op") {
    words.op = value;
  } else if (key == "type") {
    words.type = value;
  } else {
    return fail(ErrorKind::invalid_argument, "{}",
                unknown_word("part of the first line", key, kKeys));
  }
  return {};
}

Result<Call> call_in(const Header& header) {
  if (header.words.empty() || header.words[0] != "schedule") {
    return fail(ErrorKind::invalid_argument,
                "expected 'schedule OPERATION ranks N count C' before the programs");
  }
  CallWords words;
  words.ranks = 0;
  if (header.words.size() > 1) words.operation = header.words[1];
  for (std::size_t i = 2; i < header.words.size(); i += 2) {
    const bool has_value = i + 1 < header.words.size();
    CCOLL_TRY(set_word(words, header.words[i], has_value ? header.words[i + 1] : ""));
  }
  if (words.ranks == 0) {
    return fail(ErrorKind::invalid_argument, "expected 'ranks N' behind the operation");
  }
  auto call = call_of(words);
  CCOLL_TRY(call);
  call->entry = nullptr;
  return call;
}

/// The steps of a parsed text: programs and lanes come in order, then steps, "0: …".
std::vector<StepLine> step_lines(std::string_view text) {
  std::vector<StepLine> lines;
  std::uint32_t programs = 0;
  std::uint16_t lanes = 0;
  StepName at;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::vector<std::string> words = words_of(text.substr(begin, end - begin));
    begin = end + 1;
    ++number;
    if (words.empty()) continue;
    if (words[0].starts_with("program")) {
      at.rank = programs++;
      lanes = 0;
    } else if (words[0].starts_with("lane")) {
      at.lane = lanes++;
      at.step = 0;
    } else if (words[0].front() >= '0' && words[0].front() <= '9') {
      lines.emplace_back(at, number);
      ++at.step;
    }
  }
  return lines;
}

/// Checks other sizes, which the same programs must serve; returns the first failure.
Report report_of_other_sizes(const Call& call, const std::vector<Program>& programs) {
  const Program& first = programs.front();
  if (first.stripes != 1) return {};
  for (const VerifyCase& one : verify_cases(call.problem.kind, Algorithm::ring, first.size,
                                            call.problem.root, first.blocks)) {
    if (!one.problem.block_counts.empty()) continue;
    Report report = verify(one.problem, one.choice,
                           [&](Rank rank) { return striped(programs[rank], one.choice.lanes); });
    if (report.ok()) continue;
    for (Finding& finding : report.findings) {
      finding.message = fmt::format("with another count ({}), {}", one.name, finding.message);
    }
    return report;
  }
  return {};
}

}  // namespace

Result<ScheduleFile> parse_schedule_file(std::string_view text) {
  const Header header = header_of(text);
  auto call = call_in(header);
  if (!call) {
    return fail(ErrorKind::invalid_argument, "line {}: {}", header.number, call.error().message);
  }
  // Keeps the line numbers of the whole text.
  const std::string rest = std::string(header.number, '\n') + std::string(text.substr(header.end));
  auto programs = parse_programs(rest);
  if (!programs) return tl::unexpected(programs.error());
  if (programs->size() != call->problem.size) {
    return fail(ErrorKind::invalid_argument, "line {}: {} ranks, but the programs are of {}",
                header.number, call->problem.size, programs->size());
  }
  return ScheduleFile{std::move(*call), std::move(*programs), step_lines(text)};
}

Result<ScheduleFile> read_schedule_file(const std::string& path) {
  const auto text = bench::text_in(path, kMostBytes);
  if (!text) return tl::unexpected(text.error());
  auto parsed = parse_schedule_file(*text);
  if (!parsed) return fail(ErrorKind::invalid_argument, "{}: {}", path, parsed.error().message);
  return parsed;
}

std::string schedule_text(const Call& call, const std::vector<Program>& programs) {
  const Problem& problem = call.problem;
  std::string text = fmt::format("# {}\nschedule {} ranks {}", call_text(call),
                                 to_string(problem.kind), problem.size);
  if (call.operation->has_data) text += fmt::format(" count {}", problem.count);
  if (call.operation->rooted) text += fmt::format(" root {}", problem.root);
  if (reduces(problem.kind) && call.operation->has_data) {
    text += fmt::format(" op {}", to_string(call.op));
  }
  if (call.operation->has_data) text += fmt::format(" type {}", to_string(call.type));
  return text + "\n\n" + to_string(std::span<const Program>(programs));
}

Picture picture_of(ScheduleFile file) {
  Picture picture = picture_of(file.call, std::move(file.programs));
  picture.lines = std::move(file.lines);
  if (picture.report.ok()) {
    picture.report.findings = report_of_other_sizes(picture.call, picture.programs).findings;
  }
  return picture;
}

}  // namespace ccoll::show
