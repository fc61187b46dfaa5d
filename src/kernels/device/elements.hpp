// SPDX-License-Identifier: Apache-2.0
#pragma once

/// 16 bytes of elements: how they leave a word, fold with those of another source, and return.
/// core/element.hpp defines elements and operations, for the host's kernels, too: nothing is
/// defined a second time here.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/element.hpp"
#include "kernels/device/layer.hpp"

namespace ccoll::device {

/// An operation that is known when the code is compiled.
template <ReduceOp op>
struct Fixed {
  template <typename A, unsigned count>
  CCOLL_HOST_DEVICE void fold(A (&parts)[count], const A (&next)[count]) const {
    CCOLL_UNROLL
    for (unsigned i = 0; i < count; ++i) parts[i] = element::fold<op>(parts[i], next[i]);
  }
  template <typename T>
  CCOLL_HOST_DEVICE T finish(element::Accumulator<T> part, std::uint32_t divisor) const {
    return element::finish<op, T>(part, divisor);
  }
};

/// Sum, product, min, max or avg of floats of 8 and 16 bits. Their conversions are long, so the
/// code of one serves all, at the price of a branch for each word.
struct Chosen {
  ReduceOp op;

  template <typename A, unsigned count>
  CCOLL_HOST_DEVICE void fold(A (&parts)[count], const A (&next)[count]) const {
    switch (op) {
      case ReduceOp::product:
        return Fixed<ReduceOp::product>().fold(parts, next);
      case ReduceOp::min:
        return Fixed<ReduceOp::min>().fold(parts, next);
      case ReduceOp::max:
        return Fixed<ReduceOp::max>().fold(parts, next);
      default:
        return Fixed<ReduceOp::sum>().fold(parts, next);
    }
  }
  template <typename T>
  CCOLL_HOST_DEVICE T finish(element::Accumulator<T> part, std::uint32_t divisor) const {
    if (divisor == 1) return element::finish<ReduceOp::sum, T>(part, 1);
    return element::finish<ReduceOp::avg, T>(part, divisor);
  }
};

/// Whether words are folded as they are. Only bits are: a bool may be any byte but 0.
template <typename T, class Op>
inline constexpr bool folds_words =
    std::is_integral_v<T> &&
    (std::is_same_v<Op, Fixed<ReduceOp::bit_and>> || std::is_same_v<Op, Fixed<ReduceOp::bit_or>> ||
     std::is_same_v<Op, Fixed<ReduceOp::bit_xor>>);

template <std::size_t size>
using Stored = std::conditional_t<
    size == 1, std::uint8_t,
    std::conditional_t<size == 2, std::uint16_t,
                       std::conditional_t<size == 4, std::uint32_t, std::uint64_t>>>;

/// A fold's elements of one word, whatever their type, while they are in no Pack: at most 16
/// floats.
struct PackedParts {
  std::uint64_t words[8];
};

/// The elements of one word on their way through a fold.
template <typename T, class Op>
class Pack {
 public:
  CCOLL_HOST_DEVICE void start(const Word16& word) { widen(word, parts_); }

  CCOLL_HOST_DEVICE void fold(Op op, const Word16& word) {
    element::Accumulator<T> next[kElems];
    widen(word, next);
    op.fold(parts_, next);
  }

  CCOLL_HOST_DEVICE Word16 finish(Op op, std::uint32_t divisor) const {
    Word16 word;
    if constexpr (kDividesLater) {
      CCOLL_UNROLL
      for (unsigned i = 0; i < kElems; ++i) put(word, i, parts_[i]);
      return divisor == 1 ? word : divided(op, word, divisor);
    } else {
      CCOLL_UNROLL
      for (unsigned i = 0; i < kElems; ++i) put(word, i, op.template finish<T>(parts_[i], divisor));
      return word;
    }
  }

  CCOLL_HOST_DEVICE void pause(PackedParts& parts) const {
    static_assert(sizeof parts_ <= sizeof parts);
    memcpy(&parts, parts_, sizeof parts_);
  }
  CCOLL_HOST_DEVICE void resume(const PackedParts& parts) {
    memcpy(parts_, &parts, sizeof parts_);
  }

 private:
  static constexpr unsigned kElems = 16 / sizeof(T);
  static constexpr unsigned kPerHalf = kElems / 2;
  static constexpr unsigned kBits = 8 * sizeof(T);
  /// Integer division is so long that its code must not stand there once for each element.
  static constexpr bool kDividesLater =
      std::is_integral_v<T> &&
      (std::is_same_v<Op, Fixed<ReduceOp::avg>> || std::is_same_v<Op, Chosen>);

  /// The first element is in the lowest bits.
  static CCOLL_HOST_DEVICE element::Accumulator<T> widened(const Word16& word, unsigned i) {
    const std::uint64_t half = i < kPerHalf ? word.low : word.high;
    const auto stored = static_cast<Stored<sizeof(T)>>(half >> (i % kPerHalf * kBits));
    return element::widen(element::bits_as<T>(stored));
  }
  static CCOLL_HOST_DEVICE void widen(const Word16& word,
                                      element::Accumulator<T> (&parts)[kElems]) {
    CCOLL_UNROLL
    for (unsigned i = 0; i < kElems; ++i) parts[i] = widened(word, i);
  }
  static CCOLL_HOST_DEVICE void put(Word16& word, unsigned i, T value) {
    const std::uint64_t bits = element::bits_as<Stored<sizeof(T)>>(value);
    (i < kPerHalf ? word.low : word.high) |= bits << (i % kPerHalf * kBits);
  }
  static CCOLL_HOST_DEVICE Word16 divided(Op op, const Word16& sums, std::uint32_t divisor) {
    Word16 word;
    CCOLL_NO_UNROLL
    for (unsigned i = 0; i < kElems; ++i) {
      put(word, i, op.template finish<T>(widened(sums, i), divisor));
    }
    return word;
  }

  element::Accumulator<T> parts_[kElems];
};

template <typename T, class Op>
  requires folds_words<T, Op>
class Pack<T, Op> {
 public:
  CCOLL_HOST_DEVICE void start(const Word16& word) {
    parts_[0] = word.low;
    parts_[1] = word.high;
  }
  CCOLL_HOST_DEVICE void fold(Op op, const Word16& word) {
    const std::uint64_t next[2] = {word.low, word.high};
    op.fold(parts_, next);
  }
  CCOLL_HOST_DEVICE Word16 finish(Op /*op*/, std::uint32_t /*divisor*/) const {
    return {parts_[0], parts_[1]};
  }
  CCOLL_HOST_DEVICE void pause(PackedParts& parts) const { memcpy(&parts, parts_, sizeof parts_); }
  CCOLL_HOST_DEVICE void resume(const PackedParts& parts) {
    memcpy(parts_, &parts, sizeof parts_);
  }

 private:
  std::uint64_t parts_[2];
};

/// One element at any address, aligned for its type or not.
template <typename T>
CCOLL_HOST_DEVICE T load_element(const std::byte* from) {
  T value;
  memcpy(&value, from, sizeof(T));
  return value;
}

template <typename T>
CCOLL_HOST_DEVICE void store_element(std::byte* to, T value) {
  memcpy(to, &value, sizeof(T));
}

}  // namespace ccoll::device
