// SPDX-License-Identifier: Apache-2.0
#include "bench/report/page.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <vector>

#include "bench/command/sizes.hpp"
#include "bench/report/chart.hpp"
#include "bench/report/row.hpp"

namespace ccoll::bench {

namespace {

using Json = nlohmann::json;

struct Point {
  std::uint64_t bytes;
  double usec;
  double busbw;
  std::string text;  ///< the full description
};

struct Series {
  std::string name;
  std::vector<Point> points;
};

/// "3", "ring": a JSON value as shown in a cell.
std::string plain(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "-" : value.dump();
}

/// The rows' operation and those of its other properties that differ between rows.
std::string series_name(const Json& row, const std::set<std::string>& varying) {
  std::string name = row.at("op");
  for (const char* key : {"dtype", "redop", "forced_algo"}) {
    const std::string value = row.at(key);
    if (varying.contains(key) && value != "none" && !value.empty()) name += " " + value;
  }
  if (varying.contains("root") && row.at("root") >= 0) name += " root " + plain(row.at("root"));
  return name;
}

std::vector<Series> make_series(const Json& rows) {
  std::set<std::string> varying;
  for (const char* key : {"dtype", "redop", "forced_algo", "root"}) {
    for (const Json& row : rows) {
      if (row.at(key) != rows.front().at(key)) varying.insert(key);
    }
  }
  std::vector<Series> all;
  for (const Json& row : rows) {
    const std::string name = series_name(row, varying);
    auto found =
        std::find_if(all.begin(), all.end(), [&](auto& each) { return each.name == name; });
    if (found == all.end()) found = all.insert(all.end(), {name, {}});
    const std::uint64_t bytes = row.at("bytes");
    const double usec = row.at("usec");
    const double busbw = row.at("busbw_GBps");
    found->points.push_back(
        {bytes, usec, busbw,
         fmt::format("{}, {} B: {} us (p50 {}, p99 {}), {} GB/s bus bandwidth, {}", name,
                     short_size(bytes), figure(usec), figure(row.at("p50_us")),
                     figure(row.at("p99_us")), figure(busbw), plain(row.at("algo")))});
  }
  return all;
}

/// One of the two charts.
std::string chart_of(const std::vector<Series>& all, const char* title, const char* unit,
                     double Point::*value) {
  std::vector<ChartSeries> curves;
  for (const Series& series : all) {
    ChartSeries& curve = curves.emplace_back(ChartSeries{series.name, {}});
    for (const Point& point : series.points)
      curve.points.push_back({point.bytes, point.*value, point.text});
  }
  return chart(curves, title, unit);
}

std::string table(const Json& rows) {
  struct Column {
    const char* heading;
    const char* key;
  };
  constexpr Column kColumns[] = {
      {"bytes", "bytes"},
      {"type", "dtype"},
      {"reduction", "redop"},
      {"root", "root"},
      {"time (us)", "usec"},
      {"p50 (us)", "p50_us"},
      {"p99 (us)", "p99_us"},
      {"spread (%)", "spread_pct"},
      {"algbw (GB/s)", "algbw_GBps"},
      {"busbw (GB/s)", "busbw_GBps"},
      {"wrong", "wrong"},
      {"via", "transport"},
      {"algorithm", "algo"},
  };
  std::string text =
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"All figures\">\n<table>\n"
      "<caption>All figures</caption>\n<thead><tr><th scope=\"col\">operation</th>";
  for (const Column& column : kColumns) {
    text += fmt::format("<th scope=\"col\">{}</th>", column.heading);
  }
  text += "</tr></thead>\n<tbody>\n";
  for (const Json& row : rows) {
    text += fmt::format("<tr><th scope=\"row\">{}</th>", escaped(plain(row.at("op"))));
    for (const Column& column : kColumns) {
      const Json& value = row.at(column.key);
      text += fmt::format("<td>{}</td>",
                          value.is_number_float() ? figure(value) : escaped(plain(value)));
    }
    text += "</tr>\n";
  }
  return text + "</tbody>\n</table>\n</div>\n";
}

std::string facts(const Json& document) {
  const int ranks = document.at("ranks");
  std::string text = fmt::format(
      "<p>ccoll {} on {}: {}, {} cores. {}. {}</p>\n<p><code>{}</code></p>\n",
      escaped(plain(document.at("version"))), escaped(plain(document.at("host"))),
      escaped(plain(document.at("processor"))), plain(document.at("cores_usable")),
      ranks == 1 ? "One rank, alone: its figures are memory copies"
                 : fmt::format("{} ranks over {}", ranks, plain(document.at("transport"))),
      escaped(plain(document.at("time"))), escaped(plain(document.at("command"))));
  for (const Json& line : document.at("verdict")) {
    const std::string sentence = line;
    text += fmt::format("<p{}>{}</p>\n", sentence.starts_with("FAILED") ? " class=\"bad\"" : "",
                        escaped(sentence));
  }
  return text;
}

}  // namespace

std::string page(const Json& document) {
  const Json& rows = document.at("rows");
  const std::vector<Series> all = make_series(rows);
  std::vector<std::string> names;
  for (const Series& series : all) names.push_back(series.name);
  std::string body = fmt::format("<h1>cc-bench: {}</h1>\n{}", escaped(plain(document.at("label"))),
                                 facts(document));
  body += "<div class=\"charts\">\n";
  body += chart_of(all, "Time by size", "us", &Point::usec);
  body += chart_of(all, "Bus bandwidth by size", "GB/s", &Point::busbw);
  body += "</div>\n" + chart_legend(names) + table(rows);
  return page_of("cc-bench " + plain(document.at("label")), body);
}

}  // namespace ccoll::bench
