// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Words that people type: types and reduction operations with nccl-tests' spellings beside ours,
/// and a suggestion for a word that is almost right. Knows nothing of measuring.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ccoll/types.hpp"
#include "core/result.hpp"

namespace ccoll::bench {

/// Single-letter insertions, deletions, replacements and swaps of neighbours between two words.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word`, or empty when none is near enough to be what was meant.
std::string suggestion(std::string_view word, std::span<const std::string_view> candidates);

/// "no operation 'al_reduce': did you mean all_reduce? There are all_reduce, …".
std::string unknown_word(std::string_view what, std::string_view word,
                         std::span<const std::string_view> candidates);

/// `word` in small letters without '_' and '-', so that allreduce, AllReduce and all-reduce are
/// all_reduce.
std::string folded(std::string_view word);

/// "float32", "half", …; `all` and comma lists give several, in the order given, each once.
Result<std::vector<DataType>> parse_types(std::string_view list);
Result<std::vector<ReduceOp>> parse_reduce_ops(std::string_view list);

/// "a, b, c", of strings or views of them.
template <typename Words>
std::string joined(const Words& words, std::string_view separator = ", ") {
  std::string text;
  for (const std::string_view word : words) {
    if (!text.empty()) text += separator;
    text += word;
  }
  return text;
}

/// The parts of a comma list; empty parts are left out.
std::vector<std::string> split_list(std::string_view list);

}  // namespace ccoll::bench
