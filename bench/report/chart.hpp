// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Curves over sizes, as SVG in a page. Both axes are logarithmic, and pointer, arrow keys and
/// screen readers find a sentence for every point. page_parts.hpp has the style and the script. All
/// text is XML.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ccoll::bench {

struct ChartPoint {
  std::uint64_t bytes;
  double value;      ///< 0 is left out, because it has no logarithm
  std::string text;  ///< the full description
};

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;
};

/// A notable size: a vertical mark with a sentence.
struct ChartMark {
  double bytes;
  double value;
  std::string text;
};

std::string escaped(std::string_view text);

/// "1000": an axis's default label for a value.
std::string plain_tick(double value);

/// A figure; `unit` is that of the values, unless `tick` includes it.
std::string chart(const std::vector<ChartSeries>& all, const std::string& title,
                  const std::string& unit, const std::vector<ChartMark>& marks = {},
                  std::string (*tick)(double value) = plain_tick);

/// Controls that show and hide each series in all charts of the page with the same numbers.
std::string chart_legend(const std::vector<std::string>& names);

/// A whole page: head, style, `body` and script.
std::string page_of(const std::string& title, const std::string& body);

}  // namespace ccoll::bench
