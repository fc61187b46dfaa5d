// SPDX-License-Identifier: Apache-2.0
#include "core/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace ccoll {
namespace {

/// Limit on the ranges in one list of ranks.
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

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); i++) {
    for (std::size_t j = 0; j <= b.size(); j++) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1,
                             cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

std::string suggestion(std::string_view word, std::span<const std::string_view> candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(folded(word), folded(candidate));
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string unknown_word(std::string_view what, std::string_view word,
                         std::span<const std::string_view> candidates) {
  const std::string near = suggestion(word, candidates);
  return fmt::format("no {} '{}'{} There are {}", what, word,
                     near.empty() ? "." : fmt::format(": did you mean {}?", near),
                     joined(candidates));
}

std::string path_problem(const std::string& path) {
  return path.empty() ? "the path is empty: expected the name of a file or a directory" : "";
}

std::string folded(std::string_view word) {
  std::string result;
  for (const char c : word) {
    if (c != '_' && c != '-') {
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return result;
}

}  // namespace ccoll
