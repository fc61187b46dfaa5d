// SPDX-License-Identifier: Apache-2.0
#include "bench/report/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>

#include "bench/command/options.hpp"
#include "bench/command/sizes.hpp"
#include "bench/report/page_parts.hpp"

namespace ccoll::bench {

namespace {

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

/// Powers of ten that enclose all values.
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

std::string grid(const Axis& x, const Axis& y, const std::string& unit,
                 std::string (*tick)(double value)) {
  std::string svg;
  for (double value = y.low; value <= y.high * 1.001; value *= 10) {
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        kLeft, kRight, y(value), kLeft - 6, y(value) + 4, escaped(tick(value)));
  }
  // Labels only every few doublings, so that there is room.
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

constexpr std::size_t kColours = 8;
constexpr std::size_t kDashes = 4;

/// The index of the algorithm that a series' name contains as a word, if any.
std::optional<std::size_t> algorithm_in(const std::string& name) {
  static const std::vector<std::string> all = all_algorithms();
  std::istringstream words(name);
  for (std::string word; words >> word;) {
    const auto found = std::ranges::find(all, word);
    if (found != all.end()) return static_cast<std::size_t>(found - all.begin());
  }
  return std::nullopt;
}

/// Colour and dash of each series, as classes. An algorithm's are the same on all pages. Series
/// that would have the same ones get other dashes, then other colours.
std::vector<std::string> looks_of(const std::vector<std::string>& names) {
  std::vector<std::string> looks;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::size_t first = algorithm_in(names[i]).value_or(i);
    for (std::size_t turn = 0; turn < kColours * kDashes; ++turn) {
      const std::size_t colour = (first + turn / kDashes) % kColours;
      const std::size_t dash = (first / kColours + turn) % kDashes;
      std::string look = fmt::format("c{} d{}", colour, dash);
      const bool is_free = std::ranges::find(looks, look) == looks.end();
      if (!is_free && turn + 1 < kColours * kDashes) continue;
      looks.push_back(std::move(look));
      break;
    }
  }
  return looks;
}

std::vector<std::string> names_of(const std::vector<ChartSeries>& all) {
  std::vector<std::string> names;
  for (const ChartSeries& series : all) names.push_back(series.name);
  return names;
}

bool has_place(const ChartPoint& point) { return point.bytes > 0 && point.value > 0; }

std::string series_text(const ChartSeries& series, const std::string& look, const Axis& x,
                        const Axis& y) {
  std::string line;
  std::string points;
  for (const ChartPoint& point : series.points) {
    if (!has_place(point)) continue;
    const double px = x(double(point.bytes));
    const double py = y(point.value);
    line += fmt::format("{:.1f},{:.1f} ", px, py);
    points +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4.5\"><title>{}</title></circle>\n",
                    px, py, escaped(point.text));
  }
  if (points.empty()) return {};
  return fmt::format(
      "<g class=\"series {}\" tabindex=\"0\" role=\"group\" aria-label=\"{}: arrow keys move "
      "along it\"><polyline points=\"{}\"/>\n{}</g>\n",
      look, escaped(series.name), line, points);
}

std::string mark_text(const ChartMark& mark, const Axis& x, const Axis& y) {
  const double px = x(mark.bytes);
  const double py = y(mark.value);
  return fmt::format(
      "<g class=\"mark\"><title>{}</title><line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" "
      "y2=\"{}\"/><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"8\" height=\"8\"/></g>\n",
      escaped(mark.text), px, px, py, kBottom, px - 4, py - 4);
}

}  // namespace

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

std::string plain_tick(double value) { return fmt::format("{:g}", value); }

std::string chart(const std::vector<ChartSeries>& all, const std::string& title,
                  const std::string& unit, const std::vector<ChartMark>& marks,
                  std::string (*tick)(double value)) {
  std::vector<double> sizes;
  std::vector<double> values;
  for (const ChartSeries& series : all) {
    for (const ChartPoint& point : series.points) {
      if (!has_place(point)) continue;
      sizes.push_back(double(point.bytes));
      values.push_back(point.value);
    }
  }
  std::string text = fmt::format("<figure class=\"chart\">\n<figcaption><h2>{}</h2></figcaption>\n",
                                 escaped(title));
  if (values.empty()) return text + "<p>Nothing to draw: see the table.</p>\n</figure>\n";
  const auto [low, high] = std::minmax_element(sizes.begin(), sizes.end());
  const Axis x{std::exp2(std::floor(std::log2(*low))), std::exp2(std::ceil(std::log2(*high))),
               kLeft, kRight};
  const Axis y = decades(values, kBottom, kTop);
  text += fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"group\" aria-label=\"{}; the table below has the same "
      "figures\">\n{}",
      kWidth, kHeight, escaped(title), grid(x, y, unit, tick));
  for (const ChartMark& mark : marks) text += mark_text(mark, x, y);
  const std::vector<std::string> looks = looks_of(names_of(all));
  for (std::size_t i = 0; i < all.size(); i++)
    text += series_text(all[i], fmt::format("n{} {}", i, looks[i]), x, y);
  return text +
         "</svg>\n<p class=\"readout\" aria-live=\"polite\">Point at a mark, or press Tab and the "
         "arrow keys.</p>\n</figure>\n";
}

std::string chart_legend(const std::vector<std::string>& names) {
  std::string text = "<fieldset class=\"legend\" aria-label=\"Lines shown\">\n";
  const std::vector<std::string> looks = looks_of(names);
  for (std::size_t i = 0; i < names.size(); i++) {
    text += fmt::format(
        "<label><input type=\"checkbox\" checked=\"checked\" value=\"n{0}\"/> <svg class=\"series "
        "{1}\" viewBox=\"0 0 32 12\" aria-hidden=\"true\"><polyline points=\"0,6 32,6\"/></svg> "
        "{2}</label>\n",
        i, looks[i], escaped(names[i]));
  }
  return text + "</fieldset>\n";
}

std::string page_of(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
      "<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<title>{}</title>\n<style>{}{}</style>\n</head>\n<body>\n<main>\n{}</main>\n"
      "<script>{}{}</script>\n</body>\n</html>\n",
      escaped(title), kPageStyle, kChartStyle, body, kChartScript, kPageScript);
}

}  // namespace ccoll::bench
