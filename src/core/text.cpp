// SPDX-License-Identifier: Apache-2.0
#include "core/text.hpp"

#include <fmt/format.h>

namespace ccoll {
namespace {

constexpr std::size_t kMaxRanges = 16;

}  // namespace

std::string list_ranks(const std::vector<std::uint32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  std::size_t ranges = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (ranges == kMaxRanges) return text + fmt::format(" and {} more", ranks.size() - i);
    if (ranges++ != 0) text += ", ";
    text += last == i ? fmt::format("{}", ranks[i])
                      : fmt::format("{}{}{}", ranks[i], last == i + 1 ? ", " : "-", ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace ccoll
