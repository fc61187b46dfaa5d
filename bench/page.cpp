// SPDX-License-Identifier: Apache-2.0
#include "page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "names.hpp"
#include "page_parts.hpp"
#include "row.hpp"
#include "sizes.hpp"

namespace ccoll::bench {

namespace {

using Json = nlohmann::json;

struct Point {
  std::uint64_t bytes;
  double usec;
  double busbw;
  std::string text;  ///< all that there is to say of it
};

struct Series {
  std::string name;
  std::vector<Point> points;
};

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return result;
}

/// "3", "ring": a JSON value as a cell shows it.
std::string plain(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "-" : value.dump();
}

/// The rows' operation and whichever of its other properties differ between rows.
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

/// A logarithmic axis: values from `low` to `high` lie at pixels `from` to `to`.
struct Axis {
  double low;
  double high;
  double from;
  double to;

  double operator()(double value) const {
    const double share = high > low ? std::log(value / low) / std::log(high / low) : 0.5;
    return from + share * (to - from);
  }
};

/// Powers of ten that hold all values between them.
Axis decades(const std::vector<double>& values, double from, double to) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  Axis axis{std::pow(10, std::floor(std::log10(*low))), std::pow(10, std::ceil(std::log10(*high))),
            from, to};
  if (axis.high <= axis.low) axis.high = axis.low * 10;
  return axis;
}

constexpr double kWidth = 440;
constexpr double kHeight = 300;
constexpr double kLeft = 56;
constexpr double kRight = 428;
constexpr double kTop = 12;
constexpr double kBottom = 258;

std::string grid(const Axis& x, const Axis& y, const std::string& unit) {
  std::string svg;
  for (double value = y.low; value <= y.high * 1.001; value *= 10) {
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:g}</text>\n",
        kLeft, kRight, y(value), kLeft - 6, y(value) + 4, value);
  }
  // Every so many doublings a size, so that labels have room.
  const int doublings = static_cast<int>(std::lround(std::log2(x.high / x.low)));
  const int step = std::max(1, (doublings + 5) / 6);
  for (int i = 0; i <= doublings; i += step) {
    const double value = x.low * std::exp2(i);
    svg += fmt::format(
        "<line class=\"grid\" y1=\"{0}\" y2=\"{1}\" x1=\"{2:.1f}\" x2=\"{2:.1f}\"/>"
        "<text x=\"{2:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>\n",
        kTop, kBottom, x(value), kBottom + 18, short_size(static_cast<std::uint64_t>(value)));
  }
  return svg + fmt::format(
                   "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">bytes</text>"
                   "<text x=\"4\" y=\"{}\">{}</text>\n",
                   kRight, kHeight - 6, kHeight - 6, unit);
}

std::string series_class(std::size_t number) {
  return fmt::format("n{} c{} d{}", number, number % 8, number / 8 % 4);
}

/// One of the two charts; `value` of a point is left out where it is 0, which has no logarithm.
std::string chart(const std::vector<Series>& all, const char* title, const char* unit,
                  double Point::*value) {
  std::vector<double> sizes;
  std::vector<double> values;
  const auto has_place = [&](const Point& point) { return point.bytes > 0 && point.*value > 0; };
  for (const Series& series : all) {
    for (const Point& point : series.points) {
      if (!has_place(point)) continue;
      sizes.push_back(double(point.bytes));
      values.push_back(point.*value);
    }
  }
  std::string text = fmt::format("<figure>\n<figcaption><h2>{}</h2></figcaption>\n", title);
  if (values.empty()) return text + "<p>Nothing to draw: see the table.</p>\n</figure>\n";
  const auto [low, high] = std::minmax_element(sizes.begin(), sizes.end());
  const Axis x{std::exp2(std::floor(std::log2(*low))), std::exp2(std::ceil(std::log2(*high))),
               kLeft, kRight};
  const Axis y = decades(values, kBottom, kTop);
  text += fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"group\" aria-label=\"{}; the table below has the same "
      "figures\">\n{}",
      kWidth, kHeight, title, grid(x, y, unit));
  for (std::size_t i = 0; i < all.size(); i++) {
    std::string line;
    std::string points;
    for (const Point& point : all[i].points) {
      if (!has_place(point)) continue;
      const double px = x(double(point.bytes));
      const double py = y(point.*value);
      line += fmt::format("{:.1f},{:.1f} ", px, py);
      points +=
          fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4.5\"><title>{}</title></circle>\n",
                      px, py, escaped(point.text));
    }
    if (points.empty()) continue;
    text += fmt::format(
        "<g class=\"series {}\" tabindex=\"0\" role=\"group\" aria-label=\"{}: arrow keys move "
        "along it\"><polyline points=\"{}\"/>\n{}</g>\n",
        series_class(i), escaped(all[i].name), line, points);
  }
  return text +
         "</svg>\n<p class=\"readout\" aria-live=\"polite\">Point at a mark, or press Tab and the "
         "arrow keys.</p>\n</figure>\n";
}

std::string legend(const std::vector<Series>& all) {
  std::string text = "<fieldset class=\"legend\" aria-label=\"Lines shown\">\n";
  for (std::size_t i = 0; i < all.size(); i++) {
    text += fmt::format(
        "<label><input type=\"checkbox\" checked=\"checked\" value=\"n{0}\"/> <svg class=\"series "
        "{1}\" viewBox=\"0 0 32 12\" aria-hidden=\"true\"><polyline points=\"0,6 32,6\"/></svg> "
        "{2}</label>\n",
        i, fmt::format("c{} d{}", i % 8, i / 8 % 4), escaped(all[i].name));
  }
  return text + "</fieldset>\n";
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
  std::string text = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
      "<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<title>cc-bench {}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n",
      escaped(plain(document.at("label"))), kPageStyle);
  text += fmt::format("<h1>cc-bench: {}</h1>\n{}", escaped(plain(document.at("label"))),
                      facts(document));
  text += "<div class=\"charts\">\n";
  text += chart(all, "Time by size", "us", &Point::usec);
  text += chart(all, "Bus bandwidth by size", "GB/s", &Point::busbw);
  text += "</div>\n" + legend(all) + table(rows);
  return text + fmt::format("</main>\n<script>{}</script>\n</body>\n</html>\n", kPageScript);
}

}  // namespace ccoll::bench
