// SPDX-License-Identifier: Apache-2.0
#include "show/page/study_page.hpp"

#include <fmt/format.h>

#include "bench/command/sizes.hpp"
#include "bench/report/chart.hpp"

namespace ccoll::show {

namespace {

std::string title_of(const Sheet& sheet) { return fmt::format("{} ranks", sheet.ranks); }

std::string sentence_of(const Question& question, const Sheet& sheet, std::size_t algorithm,
                        std::size_t size) {
  const Answer& cell = sheet.cells[algorithm][size];
  const double best = sheet.cells[*sheet.fastest[size]][size].us();
  return fmt::format("{}, {} bytes: {}{}", to_string(question.algorithms[algorithm]),
                     bench::short_size(question.bytes[size]), time_text(cell.us()),
                     sheet.fastest[size] == algorithm
                         ? std::string(", the fastest")
                         : fmt::format(", {:.3g} times the fastest", cell.us() / best));
}

std::string table_of(const Question& question, const Sheet& sheet) {
  std::string text = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\">\n<table>\n"
      "<caption>{0}</caption>\n<thead><tr><th scope=\"col\">algorithm</th>",
      title_of(sheet));
  for (const std::uint64_t bytes : question.bytes)
    text += fmt::format("<th scope=\"col\">{}</th>", bench::short_size(bytes));
  text += "</tr></thead>\n<tbody>\n";
  for (std::size_t i = 0; i < sheet.cells.size(); ++i) {
    text += fmt::format("<tr><th scope=\"row\">{}</th>", to_string(question.algorithms[i]));
    for (std::size_t size = 0; size < question.bytes.size(); ++size) {
      const Answer& cell = sheet.cells[i][size];
      const bool best = sheet.fastest[size] == i;
      text +=
          fmt::format("<td>{}</td>", cell.simulated ? fmt::format("{}{}{}", time_text(cell.us()),
                                                                  mark_of(question, sheet, i, size),
                                                                  best ? " (best)" : "")
                                                    : "-");
    }
    text += "</tr>\n";
  }
  text += "</tbody>\n</table>\n</div>\n";
  for (const Crossing& crossing : crossings_of(question, sheet))
    text += fmt::format("<p>{}.</p>\n", bench::escaped(crossing_sentence(crossing)));
  for (const std::string& reason : reasons_of(question, sheet))
    text += fmt::format("<p>{}.</p>\n", bench::escaped(reason));
  return text;
}

std::string network_table(const Question& question) {
  std::string text =
      "<h2>The network</h2>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
      "aria-label=\"The network\">\n<table>\n<caption>Every number and where it is from"
      "</caption>\n<thead><tr><th scope=\"col\">number</th><th scope=\"col\">source</th></tr>"
      "</thead>\n<tbody>\n";
  const std::string numbers = sim::to_text(question.network);
  for (std::size_t begin = 0; begin < numbers.size();) {
    const std::size_t end = numbers.find('\n', begin);
    const std::string line = numbers.substr(begin, end - begin);
    const std::size_t source = line.find('#');
    text += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n",
                        bench::escaped(line.substr(0, line.find_last_not_of(' ', source - 1) + 1)),
                        bench::escaped(line.substr(source + 2)));
    begin = end + 1;
  }
  return text + "</tbody>\n</table>\n</div>\n";
}

}  // namespace

std::string crossing_sentence(const Crossing& crossing) {
  return fmt::format("{} becomes faster than {} near {} bytes, at {}", to_string(crossing.after),
                     to_string(crossing.before), about_text(crossing.bytes),
                     time_text(crossing.us));
}

std::string study_figure(const Question& question, const Sheet& sheet) {
  std::vector<bench::ChartSeries> curves;
  for (std::size_t i = 0; i < sheet.cells.size(); ++i) {
    auto& curve =
        curves.emplace_back(bench::ChartSeries{std::string(to_string(question.algorithms[i])), {}});
    for (std::size_t size = 0; size < question.bytes.size(); ++size) {
      if (!sheet.cells[i][size].simulated) continue;
      curve.points.push_back(
          {question.bytes[size], sheet.cells[i][size].us(), sentence_of(question, sheet, i, size)});
    }
  }
  std::vector<bench::ChartMark> marks;
  for (const Crossing& crossing : crossings_of(question, sheet))
    marks.push_back({crossing.bytes, crossing.us, crossing_sentence(crossing)});
  return bench::chart(curves, title_of(sheet), "", marks, round_time_text);
}

std::string study_page(const Question& question, const std::vector<Sheet>& sheets) {
  std::vector<std::string> names;
  for (const Algorithm algorithm : question.algorithms) names.emplace_back(to_string(algorithm));
  const std::string title =
      fmt::format("{} on {}", question.operation->name, question.network_name);
  std::string body = fmt::format(
      "<h1>{}</h1>\n<p>How long until every rank has its result, in virtual time: the schedules "
      "that the library runs, under latency, bandwidth, reductions and shared NICs. Squares mark "
      "where another algorithm becomes the fastest, on straight lines between the sizes.</p>\n"
      "<div class=\"charts\">\n",
      bench::escaped(title));
  for (const Sheet& sheet : sheets) body += study_figure(question, sheet);
  body += "</div>\n" + bench::chart_legend(names);
  for (const Sheet& sheet : sheets) body += table_of(question, sheet);
  body += fmt::format("<p>{}.<br/>{}.</p>\n", kRoundedText, kLineText);
  return bench::page_of(title, body + network_table(question));
}

}  // namespace ccoll::show
