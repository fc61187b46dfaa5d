// SPDX-License-Identifier: Apache-2.0
#include "show/real/rank_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "bench/command/names.hpp"

namespace ccoll::show {

Result<std::vector<RankGroup>> rank_groups_of(const std::string& text, std::uint32_t ranks,
                                              std::string_view option, std::string_view item) {
  std::vector<RankGroup> groups;
  std::vector<bool> taken(ranks);
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t slash = std::min(text.find('/', begin), text.size());
    RankGroup& group = groups.emplace_back();
    const std::string list = text.substr(begin, slash - begin);
    for (const std::string& word : bench::split_list(list)) {
      std::uint32_t rank = 0;
      const char* const end = word.data() + word.size();
      const auto [stopped, error] = std::from_chars(word.data(), end, rank);
      if (error != std::errc() || stopped != end || rank >= ranks)
        return fail(ErrorKind::invalid_argument, "{} {}: '{}' is not a rank from 0 to {}", option,
                    text, word, ranks - 1);
      if (taken[rank])
        return fail(ErrorKind::invalid_argument, "{} {}: rank {} is in it twice", option, text,
                    rank);
      taken[rank] = true;
      group.push_back(rank);
    }
    if (group.empty())
      return fail(ErrorKind::invalid_argument,
                  "{} {}: a {} without ranks, expected {}s like 0,1/2,3", option, text, item, item);
    if (group.size() != static_cast<std::size_t>(std::ranges::count(list, ',')) + 1)
      return fail(ErrorKind::invalid_argument,
                  "{} {}: '{}' has a comma without a rank, expected {}s like 0,1/2,3", option, text,
                  list, item);
    begin = slash + 1;
  }
  return groups;
}

std::string group_text(const RankGroup& group) {
  std::string text;
  for (const std::uint32_t rank : group) text += fmt::format("{}{}", text.empty() ? "" : ",", rank);
  return text;
}

}  // namespace ccoll::show
