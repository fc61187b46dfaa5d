// SPDX-License-Identifier: Apache-2.0
#include "show/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/element.hpp"

namespace ccoll::show {

namespace {

template <typename T>
T input_element(std::uint64_t number) {
  if constexpr (element::is_small_float<T>) {
    return element::from_float32<T>(static_cast<float>(number));
  } else if constexpr (std::is_same_v<T, element::Bool>) {
    return {static_cast<std::uint8_t>(number % 2)};
  } else {
    return static_cast<T>(number);
  }
}

template <typename T>
std::string text_of(T value) {
  if constexpr (element::is_small_float<T>) {
    return fmt::format("{:g}", element::to_float32(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    return fmt::format("{:g}", value);
  } else if constexpr (std::is_same_v<T, element::Bool>) {
    return value.byte != 0 ? "1" : "0";
  } else {
    return fmt::format("{}", +value);  // promoted: an int8 is a number, no character
  }
}

/// Where a block begins in its rank's input.
std::uint64_t first_element(const Rounds& rounds, std::uint32_t block) {
  if (holds_own_block_only(rounds.problem.kind, Buffer::input)) return 0;
  return block_offset(rounds.problem, rounds.blocks, block);
}

template <typename T>
std::vector<Numbers> compute(const Rounds& rounds, ReduceOp op, std::size_t most) {
  std::vector<std::vector<T>> values;  // sources come before what is made of them
  std::vector<Numbers> texts;
  for (const Content& content : rounds.contents) {
    const std::uint64_t elems =
        std::min<std::uint64_t>(block_elems(rounds.problem, rounds.blocks, content.block), most);
    std::vector<T>& made = values.emplace_back();
    const std::uint64_t first = first_element(rounds, content.block);
    for (std::uint64_t i = 0; i < elems; ++i) {
      std::vector<T> sources;
      for (const std::uint32_t source : content.sources) sources.push_back(values[source][i]);
      if (sources.empty()) {
        made.push_back(input_element<T>(10 * std::uint64_t{content.shares[0].rank} + first + i));
      } else {
        made.push_back(element::combine(op, sources.data(), sources.size(),
                                        content.finished ? rounds.problem.size : 1));
      }
    }
    Numbers& text = texts.emplace_back();
    for (const T value : made) text.push_back(text_of(value));
  }
  return texts;
}

}  // namespace

std::vector<Numbers> numbers_of(const Rounds& rounds, ReduceOp op, DataType type,
                                std::size_t most) {
  if (rounds.problem.kind == Kind::barrier) return std::vector<Numbers>(rounds.contents.size());
  return element::with_type(type,
                            [&](auto zero) { return compute<decltype(zero)>(rounds, op, most); });
}

}  // namespace ccoll::show
