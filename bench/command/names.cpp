// SPDX-License-Identifier: Apache-2.0
#include "bench/command/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace ccoll::bench {

namespace {

/// Other libraries' names for them, folded.
constexpr std::array<std::pair<std::string_view, std::string_view>, 20> kAliases = {{
    {"half", "float16"},       {"fp16", "float16"},
    {"bf16", "bfloat16"},      {"float", "float32"},
    {"double", "float64"},     {"int", "int32"},
    {"e4m3", "float8e4m3"},    {"f8e4m3", "float8e4m3"},
    {"fp8e4m3", "float8e4m3"}, {"float8e4m3fn", "float8e4m3"},
    {"e5m2", "float8e5m2"},    {"f8e5m2", "float8e5m2"},
    {"fp8e5m2", "float8e5m2"}, {"boolean", "bool"},
    {"prod", "product"},       {"band", "bitand"},
    {"bor", "bitor"},          {"bxor", "bitxor"},
    {"xor", "bitxor"},         {"mean", "avg"},
}};

/// One parser for both vocabularies: names, aliases, `all`, comma lists.
template <typename T, std::size_t N>
Result<std::vector<T>> parse_list(std::string_view list, std::string_view what,
                                  const std::array<T, N>& all) {
  std::vector<std::string_view> names;
  for (const T value : all) names.push_back(to_string(value));
  std::vector<T> chosen;
  for (const std::string& word : split_list(list)) {
    if (word == "all") return std::vector<T>(all.begin(), all.end());
    std::string name = folded(word);
    for (const auto& [alias, meaning] : kAliases) {
      if (name == alias) name = meaning;
    }
    const auto found = std::find_if(names.begin(), names.end(),
                                    [&](std::string_view each) { return folded(each) == name; });
    if (found == names.end()) {
      return fail(ErrorKind::invalid_argument, "{}", unknown_word(what, word, names));
    }
    const T value = all[static_cast<std::size_t>(found - names.begin())];
    if (std::find(chosen.begin(), chosen.end(), value) == chosen.end()) chosen.push_back(value);
  }
  if (chosen.empty()) {
    return fail(ErrorKind::invalid_argument, "no {} given: there are {}", what, joined(names));
  }
  return chosen;
}

}  // namespace

Result<std::vector<DataType>> parse_types(std::string_view list) {
  return parse_list(list, "element type", kDataTypes);
}

Result<std::vector<ReduceOp>> parse_reduce_ops(std::string_view list) {
  return parse_list(list, "reduction", kReduceOps);
}

std::vector<std::string> split_list(std::string_view list) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (comma > 0) parts.emplace_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return parts;
}

}  // namespace ccoll::bench
