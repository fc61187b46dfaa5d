// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Text for messages, and suggestions for text that people mistyped.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ccoll {

/// "a, b, c": the names in a range of strings or string views. (fmt::join over string views makes
/// GCC 12 warn of an overflow that is not there.)
template <typename Names>
std::string joined(const Names& names, std::string_view separator = ", ") {
  std::string text;
  for (const auto& name : names) {
    if (!text.empty()) text += separator;
    text += name;
  }
  return text;
}

/// "ranks 0-2, 5", "rank 7": in the order given, with consecutive ranks as a range. A long list
/// ends with the number of ranks left out.
std::string list_ranks(const std::vector<std::uint32_t>& ranks);

/// Single-letter insertions, deletions, replacements and swaps of neighbours between two words.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word`, or empty if none is near enough.
std::string suggestion(std::string_view word, std::span<const std::string_view> candidates);

/// "no operation 'al_reduce': did you mean all_reduce? There are all_reduce, …".
std::string unknown_word(std::string_view what, std::string_view word,
                         std::span<const std::string_view> candidates);

/// The fault of a path that a user gave, for a command line's parser; empty if it has none.
std::string path_problem(const std::string& path);

/// `word` in small letters without '_' and '-', so that allreduce, AllReduce and all-reduce are
/// all_reduce.
std::string folded(std::string_view word);

}  // namespace ccoll
