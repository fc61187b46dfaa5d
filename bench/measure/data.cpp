// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/data.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/element.hpp"

namespace ccoll::bench {

namespace {

/// SplitMix64's finaliser: an arbitrary but repeatable value for a place.
std::uint64_t hash(std::uint64_t rank, std::uint64_t place) {
  std::uint64_t x = rank * 0x9e3779b97f4a7c15 + (place + 1) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// A place of the pattern, as seen by one rank of `size`.
struct Place {
  int size;
  int rank;
  std::uint64_t index;

  std::uint64_t bits() const { return hash(static_cast<std::uint64_t>(rank), index); }
  /// True on `chosen` of the ranks, which vary with the index.
  bool is_among(std::int64_t chosen) const {
    const auto n = static_cast<std::uint64_t>(size);
    return static_cast<std::int64_t>((static_cast<std::uint64_t>(rank) + index) % n) < chosen;
  }
};

/// T represents whole numbers up to this exactly, and so every sum that stays below it.
template <typename T>
constexpr std::int64_t exact_limit() {
  if constexpr (std::is_same_v<T, float8_e5m2>) return 1 << 3;
  if constexpr (std::is_same_v<T, float8_e4m3>) return 1 << 4;
  if constexpr (std::is_same_v<T, bfloat16>) return 1 << 8;
  if constexpr (std::is_same_v<T, float16>) return 1 << 11;
  if constexpr (std::is_same_v<T, float>) return 1 << 24;
  return std::int64_t{1} << 53;
}

/// Signed whole numbers so small that every partial sum is exact. With too many ranks for that,
/// most contribute 0.
template <typename T>
double summand(const Place& place) {
  const std::int64_t most = exact_limit<T>() / place.size;
  if (most == 0 && !place.is_among(exact_limit<T>())) return 0;
  const std::int64_t bound = std::max<std::int64_t>(most, 1);
  const auto span = static_cast<std::uint64_t>(2 * bound + 1);
  return static_cast<double>(static_cast<std::int64_t>(place.bits() % span) - bound);
}

/// Signed powers of two, a few of them not 1, and one odd number that T's mantissa, or seven bits,
/// can hold: every partial product is exact and far from overflow.
template <typename T>
double factor(const Place& place) {
  constexpr std::int64_t kMagnified = std::is_same_v<T, float8_e4m3> ? 3 : 8;
  constexpr std::uint64_t kOddNumbers = std::min<std::int64_t>(exact_limit<T>() / 2, 63);
  const std::uint64_t bits = place.bits();
  double value = bits & 1 ? -1.0 : 1.0;
  if (place.is_among(kMagnified)) {
    constexpr double kScales[] = {0.5, 1.0, 2.0};
    value *= kScales[(bits >> 8) % 3];
  }
  if (place.is_among(1)) value *= static_cast<double>(1 + 2 * ((bits >> 16) % kOddNumbers));
  return value;
}

/// Eighths of whole numbers, and zeros of both signs.
double comparable(const Place& place) {
  const std::uint64_t bits = place.bits();
  const double value = static_cast<double>(static_cast<std::int64_t>(bits % 511) - 255) / 8;
  return value == 0 && (bits >> 32) & 1 ? -0.0 : value;
}

template <typename T>
T float_element(ReduceOp op, const Place& place) {
  double value = 0;
  if (op == ReduceOp::product) {
    value = factor<T>(place);
  } else if (op == ReduceOp::min || op == ReduceOp::max) {
    value = comparable(place);
  } else {
    value = summand<T>(place);
  }
  return element::narrow<T>(static_cast<element::Accumulator<T>>(value));
}

/// Integers wrap, so any values will do, but results should vary: products of odd numbers do not
/// soon become 0, and few bits are missing from an and, or present in an or.
template <typename T>
T integer_element(ReduceOp op, const Place& place) {
  const std::uint64_t bits = place.bits();
  const std::uint64_t one_bit = std::uint64_t{1} << bits % (8 * sizeof(T));
  if (op == ReduceOp::product) return static_cast<T>(bits | 1);
  if (op == ReduceOp::bit_and) return static_cast<T>(~one_bit);
  return static_cast<T>(op == ReduceOp::bit_or ? one_bit : bits);
}

/// Any byte but 0 is true. About one rank in all determines the result of an and or an or.
element::Bool bool_element(ReduceOp op, const Place& place) {
  const std::uint64_t bits = place.bits();
  const auto truth = static_cast<std::uint8_t>(1 + (bits >> 32) % 255);
  const bool is_rare = bits % static_cast<std::uint64_t>(place.size) == 0;
  bool value = is_rare;
  if (op == ReduceOp::product || op == ReduceOp::min || op == ReduceOp::bit_and) value = !is_rare;
  if (op == ReduceOp::bit_xor || place.size == 1) value = (bits & 1) != 0;
  return {value ? truth : std::uint8_t{0}};
}

template <typename T>
T make_element(const Recipe& recipe, const Place& place) {
  if (!recipe.op) {
    const std::uint64_t bits = place.bits();
    T value;
    std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
    return value;
  }
  if constexpr (std::is_same_v<T, element::Bool>) {
    return bool_element(*recipe.op, place);
  } else if constexpr (std::is_integral_v<T>) {
    return integer_element<T>(*recipe.op, place);
  } else {
    return float_element<T>(*recipe.op, place);
  }
}

/// Calls `visit(offset in elements, period's first element, elements)` for every stretch without a
/// wrap around the period.
template <typename F>
void for_each_stretch(std::uint64_t elems, std::uint64_t first, F&& visit) {
  std::uint64_t place = first % kPeriod;
  for (std::uint64_t done = 0; done < elems;) {
    const std::uint64_t stretch = std::min(elems - done, kPeriod - place);
    visit(done, place, stretch);
    done += stretch;
    place = 0;
  }
}

}  // namespace

std::vector<std::byte> make_input_period(const Recipe& recipe, int rank) {
  std::vector<std::byte> period(kPeriod * size_of(recipe.type));
  element::with_type(recipe.type, [&]<typename T>(T) {
    for (std::uint64_t i = 0; i < kPeriod; i++) {
      const T value = make_element<T>(recipe, {recipe.size, rank, i});
      std::memcpy(period.data() + i * sizeof(T), &value, sizeof value);
    }
  });
  return period;
}

std::vector<std::byte> make_reduced_period(const Recipe& recipe) {
  std::vector<std::byte> period(kPeriod * size_of(recipe.type));
  const auto divisor = static_cast<std::uint32_t>(recipe.size);
  element::with_type(recipe.type, [&]<typename T>(T) {
    std::vector<T> contributions(static_cast<std::size_t>(recipe.size));
    for (std::uint64_t i = 0; i < kPeriod; i++) {
      for (int r = 0; r < recipe.size; r++) {
        contributions[static_cast<std::size_t>(r)] = make_element<T>(recipe, {recipe.size, r, i});
      }
      const T value = element::combine(*recipe.op, contributions.data(), contributions.size(),
                                       *recipe.op == ReduceOp::avg ? divisor : 1);
      std::memcpy(period.data() + i * sizeof(T), &value, sizeof value);
    }
  });
  return period;
}

std::span<const std::byte> Patterns::input(int rank) {
  auto& period = inputs_[rank];
  if (period.empty()) period = make_input_period(recipe_, rank);
  return period;
}

std::span<const std::byte> Patterns::reduced() {
  if (reduced_.empty()) reduced_ = make_reduced_period(recipe_);
  return reduced_;
}

void fill(std::byte* data, std::uint64_t elems, std::size_t elem_bytes,
          std::span<const std::byte> period, std::uint64_t first) {
  for_each_stretch(elems, first, [&](std::uint64_t at, std::uint64_t place, std::uint64_t count) {
    std::memcpy(data + at * elem_bytes, period.data() + place * elem_bytes, count * elem_bytes);
  });
}

std::uint64_t count_wrong(const std::byte* data, std::uint64_t elems, std::size_t elem_bytes,
                          std::span<const std::byte> period, std::uint64_t first) {
  std::uint64_t wrong = 0;
  for_each_stretch(elems, first, [&](std::uint64_t at, std::uint64_t place, std::uint64_t count) {
    const std::byte* found = data + at * elem_bytes;
    const std::byte* expected = period.data() + place * elem_bytes;
    if (std::memcmp(found, expected, count * elem_bytes) == 0) return;
    for (std::uint64_t i = 0; i < count; i++) {
      wrong += std::memcmp(found + i * elem_bytes, expected + i * elem_bytes, elem_bytes) != 0;
    }
  });
  return wrong;
}

}  // namespace ccoll::bench
