// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Inputs of the kernel tests: elements with arbitrary bits, and buffers with sentinels around
/// them.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include "core/element.hpp"

#define CCOLL_ALL_TYPES                                                                        \
  std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t,         \
      std::int64_t, std::uint64_t, float16, bfloat16, float, double, float8_e4m3, float8_e5m2, \
      element::Bool

namespace ccoll::testing {

inline constexpr std::size_t kGuard = 64;
inline constexpr unsigned char kSentinel = 0xa5;

template <typename T>
std::vector<std::uint64_t> special_bits() {
  if constexpr (std::is_same_v<T, float16>) {
    return {0, 0x8000, 1, 0x8001, 0x3ff, 0x400, 0x3c00, 0x7bff, 0x7c00, 0xfc00, 0x7c01, 0xffff};
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return {0, 0x8000, 1, 0x8001, 0x7f, 0x80, 0x3f80, 0x7f7f, 0x7f80, 0xff80, 0x7f81, 0xffff};
  } else if constexpr (std::is_same_v<T, float8_e4m3>) {
    return {0, 0x80, 1, 0x81, 7, 8, 0x38, 0x7e, 0xfe, 0x7f, 0xff};
  } else if constexpr (std::is_same_v<T, float8_e5m2>) {
    return {0, 0x80, 1, 0x81, 3, 4, 0x3c, 0x7b, 0x7c, 0xfc, 0x7d, 0xff};
  } else if constexpr (std::is_same_v<T, element::Bool>) {
    return {0, 1, 2, 0x80, 0xff};
  } else if constexpr (std::is_same_v<T, float>) {
    return {0,          0x80000000, 1,          0x80000001, 0x3f800000,
            0x7f7fffff, 0x7f800000, 0xff800000, 0x7f800001, 0xffc01234};
  } else if constexpr (std::is_same_v<T, double>) {
    constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
    constexpr std::uint64_t kInfinity = 0x7ff0000000000000;
    return {0,
            kSign,
            1,
            kSign + 1,
            0x3ff0000000000000,
            kInfinity - 1,
            kInfinity,
            kSign + kInfinity,
            kInfinity + 1,
            ~std::uint64_t{0}};
  } else {
    const auto top = std::uint64_t{1} << (8 * sizeof(T) - 1);
    return {0, 1, ~std::uint64_t{0}, top, top - 1, top + 1};
  }
}

/// Arbitrary bits, special ones half of the time, and floats of similar size, so that ordinary sums
/// round.
template <typename T>
T random_element(std::mt19937_64& random) {
  static const std::vector<std::uint64_t> special = special_bits<T>();
  std::uint64_t bits = random();
  const std::uint64_t kind = random() % 8;
  if (kind == 0) bits = special[bits % special.size()];
  if (kind >= 4) {
    if constexpr (std::is_same_v<T, float16>) bits = 0x3000 | (bits & 0x8fff);
    if constexpr (std::is_same_v<T, bfloat16>) bits = 0x3f00 | (bits & 0x81ff);
    if constexpr (std::is_same_v<T, float8_e4m3>) bits = 0x30 | (bits & 0x8f);
    if constexpr (std::is_same_v<T, float8_e5m2>) bits = 0x38 | (bits & 0x87);
    if constexpr (std::is_same_v<T, element::Bool>) bits = bits & 1;
    if constexpr (std::is_same_v<T, float>) bits = 0x3f000000 | (bits & 0x81ffffff);
    if constexpr (std::is_same_v<T, double>) {
      bits = 0x3fe0000000000000 | (bits & 0x803fffffffffffff);
    }
  }
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  return value;
}

/// One buffer of `elems` elements that starts `misalignment` bytes past a guard, with guards before
/// and behind.
template <typename T>
class Guarded {
 public:
  Guarded(std::size_t elems, std::size_t misalignment)
      : offset_(kGuard + misalignment),
        size_(elems * sizeof(T)),
        bytes_(offset_ + size_ + kGuard, std::byte{kSentinel}) {}

  std::byte* data() { return bytes_.data() + offset_; }
  /// Includes the guards: data() points `offset()` bytes into it.
  std::span<std::byte> bytes() { return bytes_; }
  std::size_t offset() const { return offset_; }
  void set(std::size_t i, T value) { std::memcpy(data() + i * sizeof(T), &value, sizeof(T)); }
  T get(std::size_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + offset_ + i * sizeof(T), sizeof(T));
    return value;
  }
  bool guards_are_whole() const {
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      const bool inside = i >= offset_ && i < offset_ + size_;
      if (!inside && bytes_[i] != std::byte{kSentinel}) return false;
    }
    return true;
  }
  bool operator==(const Guarded&) const = default;

 private:
  std::size_t offset_;
  std::size_t size_;
  std::vector<std::byte> bytes_;
};

template <typename T>
std::vector<ReduceOp> ops_of() {
  std::vector<ReduceOp> ops;
  for (const ReduceOp op : kReduceOps) {
    if (is_defined(op, data_type_of<T>)) ops.push_back(op);
  }
  return ops;
}

}  // namespace ccoll::testing
