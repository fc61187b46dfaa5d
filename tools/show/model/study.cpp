// SPDX-License-Identifier: Apache-2.0
#include "show/model/study.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <thread>

#include "bench/command/columns.hpp"
#include "bench/command/sizes.hpp"
#include "core/text.hpp"
#include "rendezvous/identity.hpp"

namespace ccoll::show {

namespace {

Answer simulate_cell(const Question& question, Rank ranks, std::uint64_t bytes,
                     Algorithm algorithm) {
  const bench::Operation& operation = *question.operation;
  const int size = static_cast<int>(ranks);
  const std::uint64_t unit = bench::size_unit(operation, question.type, size);
  if (operation.has_data && bytes < unit)
    return {.simulated = {},
            .reason = fmt::format("{} bytes are less than one element for each rank", bytes)};
  const Problem problem = sim::placed_on(
      question.network, bench::problem_of(operation, question.type, size,
                                          static_cast<int>(question.root), bytes - bytes % unit));
  const std::size_t elem_bytes = operation.has_data ? size_of(question.type) : 1;
  const auto choice = sim::choose_on(question.network, problem, elem_bytes, algorithm);
  if (!choice) return {.simulated = {}, .reason = choice.error().message};
  auto simulated = sim::simulate(question.network, problem, elem_bytes, *choice, question.options);
  if (!simulated) return {.simulated = {}, .reason = simulated.error().message};
  return {.simulated = std::move(*simulated), .reason = {}};
}

struct Unit {
  double us;
  const char* name;
};

/// The largest unit in which the value is at least one.
Unit unit_of(double us) {
  for (const Unit& unit : {Unit{1e6, "s"}, Unit{1e3, "ms"}, Unit{1, "us"}}) {
    if (us >= unit.us) return unit;
  }
  return {1e-3, "ns"};
}

/// Where the two straight lines in logarithms intersect; their order changes between the two sizes.
Crossing crossing_between(const Question& question, const Sheet& sheet, std::size_t before,
                          std::size_t after, std::size_t size) {
  const auto lead = [&](std::size_t at) {
    return std::log(sheet.cells[before][at].us() / sheet.cells[after][at].us());
  };
  const double share = lead(size - 1) / (lead(size - 1) - lead(size));
  const auto between = [&](double from, double to) { return from * std::pow(to / from, share); };
  return {question.algorithms[before], question.algorithms[after],
          between(static_cast<double>(question.bytes[size - 1]),
                  static_cast<double>(question.bytes[size])),
          between(sheet.cells[after][size - 1].us(), sheet.cells[after][size].us())};
}

std::string crossing_text(const Crossing& crossing) {
  return fmt::format("{} becomes faster than {} near {} bytes", to_string(crossing.after),
                     to_string(crossing.before), about_text(crossing.bytes));
}

/// "x2.03", "x1240".
std::string factor_text(double factor) {
  return factor < 99.5 ? fmt::format("x{:.3g}", factor) : fmt::format("x{:.0f}", factor);
}

/// A time, and its comparison: "42.4 ms+ x1.3". Each has a column of its own.
struct CellText {
  std::string time = "-";
  std::string factor;
};

CellText cell_text(const Question& question, const Sheet& sheet, std::size_t algorithm,
                   std::size_t size) {
  const Answer& cell = sheet.cells[algorithm][size];
  if (!cell.simulated) return {};
  const double factor = cell.us() / sheet.cells[*sheet.fastest[size]][size].us();
  return {fmt::format("{}{:<1}", time_text(cell.us()), mark_of(question, sheet, algorithm, size)),
          sheet.fastest[size] == algorithm ? "best" : factor_text(factor)};
}

/// One size: its heading and a cell for each algorithm, all of equal width.
std::vector<std::string> size_column(const Question& question, const Sheet& sheet,
                                     std::size_t size) {
  std::vector<CellText> cells;
  std::size_t time = 0, factor = 0;
  for (std::size_t i = 0; i < sheet.cells.size(); ++i) {
    const CellText& cell = cells.emplace_back(cell_text(question, sheet, i, size));
    time = std::max(time, cell.time.size());
    factor = std::max(factor, cell.factor.size());
  }
  const std::string head = bench::short_size(question.bytes[size]);
  const std::size_t width = std::max(time + 1 + factor, head.size());
  std::vector<std::string> column = {fmt::format("{:>{}}", head, width)};
  for (const CellText& cell : cells)
    column.push_back(
        fmt::format("{:>{}} {:>{}}", cell.time, width - 1 - factor, cell.factor, factor));
  return column;
}

std::string without_end_spaces(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines)
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  return text;
}

/// A large simulation takes some 200 MB.
constexpr std::size_t kMostThreads = 8;

/// Cells are independent, so all cores can share them.
void simulate_cells(const Question& question, Sheet& sheet) {
  const std::size_t sizes = question.bytes.size();
  const std::size_t cells = question.algorithms.size() * sizes;
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t cell = next++; cell < cells; cell = next++) {
      const std::size_t algorithm = cell / sizes, size = cell % sizes;
      sheet.cells[algorithm][size] = simulate_cell(question, sheet.ranks, question.bytes[size],
                                                   question.algorithms[algorithm]);
    }
  };
  std::vector<std::jthread> others;
  const std::size_t threads = std::min({std::size_t{usable_cores()}, kMostThreads, cells});
  while (others.size() + 1 < threads) others.emplace_back(work);
  work();
}

}  // namespace

Sheet simulate_sheet(const Question& question, Rank ranks) {
  Sheet sheet{.ranks = ranks, .cells = {}, .fastest = {}};
  sheet.cells.assign(question.algorithms.size(), std::vector<Answer>(question.bytes.size()));
  simulate_cells(question, sheet);
  for (std::size_t size = 0; size < question.bytes.size(); ++size) {
    std::optional<std::size_t> fastest;
    for (std::size_t i = 0; i < sheet.cells.size(); ++i) {
      const bool has_time = sheet.cells[i][size].simulated.has_value();
      if (has_time && (!fastest || sheet.cells[i][size].us() < sheet.cells[*fastest][size].us()))
        fastest = i;
    }
    sheet.fastest.push_back(fastest);
  }
  return sheet;
}

std::vector<Crossing> crossings_of(const Question& question, const Sheet& sheet) {
  std::vector<Crossing> crossings;
  for (std::size_t size = 1; size < question.bytes.size(); ++size) {
    const auto before = sheet.fastest[size - 1];
    const auto after = sheet.fastest[size];
    if (!before || !after || before == after) continue;
    if (sheet.cells[*before][size].us() <= 0 || sheet.cells[*after][size - 1].us() <= 0) continue;
    crossings.push_back(crossing_between(question, sheet, *before, *after, size));
  }
  return crossings;
}

std::string time_text(double us) {
  // A value that rounds up to the next unit is shown in that unit.
  const Unit unit = unit_of(us * 1.0005);
  const double value = us / unit.us;
  const int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, digits, unit.name);
}

std::string round_time_text(double us) {
  const Unit unit = unit_of(us * 1.0005);
  return fmt::format("{:.3g} {}", us / unit.us, unit.name);
}

std::string about_text(double bytes) {
  constexpr std::string_view kSuffixes = "KMGT";
  std::string suffix;
  for (const char letter : kSuffixes) {
    if (bytes < 1024) break;
    bytes /= 1024;
    suffix = letter;
  }
  return bytes < 99.5 ? fmt::format("{:.2g}{}", bytes, suffix)
                      : fmt::format("{:.0f}{}", bytes, suffix);
}

std::string mark_of(const Question& question, const Sheet& sheet, std::size_t algorithm,
                    std::size_t size) {
  const Answer& cell = sheet.cells[algorithm][size];
  if (!cell.simulated) return {};
  const sim::Simulated& simulated = *cell.simulated;
  std::string marks;
  if (question.operation->has_data) {
    const std::uint64_t unit =
        bench::size_unit(*question.operation, question.type, static_cast<int>(sheet.ranks));
    const std::uint64_t bytes = question.bytes[size] - question.bytes[size] % unit;
    const std::uint64_t count =
        bench::count_of(*question.operation, question.type, static_cast<int>(sheet.ranks), bytes);
    if (simulated.count != count) marks += kRoundedMark;
  }
  if (simulated.windows_run > 0) marks += kLineMark;
  return marks;
}

std::vector<std::string> reasons_of(const Question& question, const Sheet& sheet) {
  std::vector<std::string> reasons;
  for (std::size_t i = 0; i < sheet.cells.size(); ++i) {
    std::map<std::string, std::vector<std::string>> sizes;  // by reason
    for (std::size_t size = 0; size < question.bytes.size(); ++size) {
      const Answer& cell = sheet.cells[i][size];
      if (!cell.simulated) sizes[cell.reason].push_back(bench::short_size(question.bytes[size]));
    }
    for (const auto& [reason, of] : sizes) {
      const bool all = of.size() == question.bytes.size();
      reasons.push_back(fmt::format("{}{}{} skipped: {}", to_string(question.algorithms[i]),
                                    all ? "" : " at ", all ? "" : joined(of), reason));
    }
  }
  return reasons;
}

std::string sheet_text(const Question& question, const Sheet& sheet, std::size_t width) {
  const Rank nodes = question.network.nodes(sheet.ranks);
  std::string text =
      fmt::format("{} ranks on {} node{}\n", sheet.ranks, nodes, nodes == 1 ? "" : "s");
  std::vector<std::string> names = {"  algorithm"};
  for (const Algorithm algorithm : question.algorithms)
    names.push_back(fmt::format("  {}", to_string(algorithm)));
  const std::size_t name_width = std::ranges::max(names, {}, &std::string::size).size();
  std::vector<std::string> lines;
  std::string marks;
  for (std::size_t size = 0; size < question.bytes.size(); ++size) {
    const std::vector<std::string> column = size_column(question, sheet, size);
    const bool has_room = !lines.empty() && lines[0].size() + 2 + column[0].size() <= width;
    if (!has_room) {
      text += without_end_spaces(lines);
      lines.clear();
      for (const std::string& name : names)
        lines.push_back(fmt::format("{:<{}}", name, name_width));
    }
    for (std::size_t i = 0; i < lines.size(); ++i) lines[i] += "  " + column[i];
    for (std::size_t i = 0; i < sheet.cells.size(); ++i) marks += mark_of(question, sheet, i, size);
  }
  text += without_end_spaces(lines);
  for (const Crossing& crossing : crossings_of(question, sheet))
    text += bench::wrapped(crossing_text(crossing), width, "  ");
  for (const std::string& reason : reasons_of(question, sheet))
    text += bench::wrapped(reason, width, "  ");
  for (const char* line : {kRoundedText, kLineText}) {
    if (marks.find(line[0]) != std::string::npos) text += bench::wrapped(line, width, "  ");
  }
  return text;
}

}  // namespace ccoll::show
