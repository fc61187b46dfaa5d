// SPDX-License-Identifier: Apache-2.0
#include "show/text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
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

/// Floats round; integers and bools must represent the number exactly.
template <typename T>
std::optional<T> element_of(double number) {
  if constexpr (element::is_small_float<T>) {
    return element::from_float32<T>(static_cast<float>(number));
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(number);
  } else if constexpr (std::is_same_v<T, element::Bool>) {
    if (number != 0 && number != 1) return std::nullopt;
    return T{static_cast<std::uint8_t>(number)};
  } else {
    // The limits of 64 bits are not doubles: they round to the power of two, which is outside.
    const bool inside = number >= static_cast<double>(std::numeric_limits<T>::min()) &&
                        number < std::ldexp(1.0, std::numeric_limits<T>::digits);
    if (!inside || number != std::trunc(number)) return std::nullopt;
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

/// Where a block begins in the input of the rank with this view of the problem.
std::uint64_t first_element(const Problem& view, std::uint32_t blocks, std::uint32_t block) {
  if (holds_own_block_only(view.kind, Buffer::input)) return 0;
  return block_offset(view, blocks, block);
}

template <typename T>
std::vector<T> input_of(const Rounds& rounds, Rank rank, std::uint32_t block, std::size_t most) {
  const Problem view = view_of(rounds.problem, rank);
  const std::uint64_t elems =
      std::min<std::uint64_t>(block_elems(view, rounds.blocks, block), most);
  const std::uint64_t first = 10 * std::uint64_t{rank} + first_element(view, rounds.blocks, block);
  std::vector<T> elements;
  for (std::uint64_t i = 0; i < elems; ++i) elements.push_back(input_element<T>(first + i));
  return elements;
}

/// The sources' elements combined one by one.
template <typename T>
std::vector<T> combined(const std::vector<std::vector<T>>& sources, ReduceOp op,
                        std::uint32_t divisor) {
  std::vector<T> made;
  for (std::size_t i = 0; i < sources[0].size(); ++i) {
    std::vector<T> elements;
    for (const std::vector<T>& source : sources) elements.push_back(source[i]);
    made.push_back(element::combine(op, elements.data(), elements.size(), divisor));
  }
  return made;
}

template <typename T>
Numbers texts_of(const std::vector<T>& elements) {
  Numbers texts;
  for (const T element : elements) texts.push_back(text_of(element));
  return texts;
}

template <typename T>
std::vector<Numbers> compute(const Rounds& rounds, ReduceOp op, std::size_t most) {
  std::vector<std::vector<T>> values;  // sources come before contents made from them
  std::vector<Numbers> texts;
  for (const Content& content : rounds.contents) {
    std::vector<std::vector<T>> sources;
    for (const std::uint32_t source : content.sources) sources.push_back(values[source]);
    values.push_back(sources.empty()
                         ? input_of<T>(rounds, content.shares[0].rank, content.block, most)
                         : combined(sources, op, content.finished ? rounds.problem.size : 1));
    texts.push_back(texts_of(values.back()));
  }
  return texts;
}

template <typename T>
Numbers compute_reduced(const Rounds& rounds, ReduceOp op, std::uint32_t block, std::size_t most) {
  std::vector<std::vector<T>> sources;
  for (Rank rank = 0; rank < rounds.problem.size; ++rank) {
    sources.push_back(input_of<T>(rounds, rank, block, most));
  }
  return texts_of(combined(sources, op, rounds.problem.size));
}

}  // namespace

std::vector<Numbers> numbers_of(const Rounds& rounds, ReduceOp op, DataType type,
                                std::size_t most) {
  if (rounds.problem.kind == Kind::barrier) return std::vector<Numbers>(rounds.contents.size());
  return element::with_type(type,
                            [&](auto zero) { return compute<decltype(zero)>(rounds, op, most); });
}

Numbers reduced_numbers(const Rounds& rounds, ReduceOp op, DataType type, std::uint32_t block,
                        std::size_t most) {
  if (rounds.problem.kind == Kind::barrier) return {};
  return element::with_type(
      type, [&](auto zero) { return compute_reduced<decltype(zero)>(rounds, op, block, most); });
}

std::vector<std::byte> input_bytes(DataType type, Rank rank, std::uint64_t elems) {
  return element::with_type(type, [&](auto zero) {
    using T = decltype(zero);
    std::vector<std::byte> bytes(elems * sizeof(T));
    for (std::uint64_t i = 0; i < elems; ++i) {
      const T value = input_element<T>(10 * std::uint64_t{rank} + i);
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
    return bytes;
  });
}

Result<std::vector<std::byte>> bytes_of(DataType type, const std::vector<double>& values) {
  return element::with_type(type, [&](auto zero) -> Result<std::vector<std::byte>> {
    using T = decltype(zero);
    std::vector<std::byte> bytes(values.size() * sizeof(T));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto value = element_of<T>(values[i]);
      if (!value)
        return fail(ErrorKind::invalid_argument, "element {} is {}, which {} does not hold", i,
                    values[i], to_string(type));
      std::memcpy(bytes.data() + i * sizeof(T), &*value, sizeof(T));
    }
    return bytes;
  });
}

Numbers texts_of(DataType type, const std::vector<std::byte>& buffer, std::uint64_t first,
                 std::uint64_t elems) {
  return element::with_type(type, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> elements(elems);
    for (std::uint64_t i = 0; i < elems; ++i) {
      std::memcpy(&elements[i], buffer.data() + (first + i) * sizeof(T), sizeof(T));
    }
    return texts_of(elements);
  });
}

}  // namespace ccoll::show
