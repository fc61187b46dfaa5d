// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Curves over sizes, as SVG in a page: both axes logarithmic, every point with a sentence that a
/// pointer, the arrow keys and a screen reader find. page_parts.hpp has the style and the script.
/// All text is XML.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ccoll::bench {

struct ChartPoint {
  std::uint64_t bytes;
  double value;      ///< 0, which has no logarithm, is left out
  std::string text;  ///< all that there is to say of it
};

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;
};

/// Where something happens that a person may look for: a vertical mark with a sentence.
struct ChartMark {
  double bytes;
  double value;
  std::string text;
};

std::string escaped(std::string_view text);

/// "1000": how an axis names a value where nobody knows better.
std::string plain_tick(double value);

/// A figure; `unit` is that of the values, where `tick` does not say it.
std::string chart(const std::vector<ChartSeries>& all, const std::string& title,
                  const std::string& unit, const std::vector<ChartMark>& marks = {},
                  std::string (*tick)(double value) = plain_tick);

/// What shows and hides each series in all charts of the page that number them alike.
std::string chart_legend(const std::vector<std::string>& names);

/// A whole page: head, the style, `body` and the script.
std::string page_of(const std::string& title, const std::string& body);

}  // namespace ccoll::bench
