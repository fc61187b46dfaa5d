// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Copying and reducing by the threads of a block, on the device or, for tests, on the host: the
/// bits are those of kernels/combine.hpp. Knows nothing of ranks, links or schedules.
///
/// Outputs are written in aligned words of 16 bytes, and sources are read in such words, whatever
/// their alignment. If a source is not aligned as the output is, two neighbouring words are shifted
/// together. Elements before the first whole word and behind the last go one by one. If the output
/// is not even aligned for its type, all do.

#include <cstddef>
#include <cstdint>

#include "kernels/device/elements.hpp"
#include "kernels/device/families.hpp"

namespace ccoll::device {

/// The arguments of a CombineFunction, whose contract holds here too; `bytes` is a multiple of the
/// element's size.
struct Combination {
  const std::byte* const* sources = nullptr;
  std::uint32_t source_count = 0;
  std::byte* out = nullptr;
  std::uint64_t bytes = 0;
  std::uint32_t divisor = 1;
};

namespace detail {

CCOLL_HOST_DEVICE inline unsigned offset_in_word(const std::byte* address) {
  return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(address) % sizeof(Word16));
}

/// Loads 16 bytes from anywhere; reads whole aligned words, two of them if `from` is not aligned.
CCOLL_HOST_DEVICE inline Word16 load_word(const std::byte* from) {
  const unsigned offset = offset_in_word(from);
  if (offset == 0) return load_data(from);
  const Word16 first = load_data(from - offset);
  const Word16 second = load_data(from - offset + sizeof(Word16));
  const bool is_far = offset >= 8;
  const std::uint64_t a = is_far ? first.high : first.low;
  const std::uint64_t b = is_far ? second.low : first.high;
  const std::uint64_t c = is_far ? second.high : second.low;
  const unsigned bits = offset % 8 * 8;
  // There are two shifts, because one by 64 bits is undefined.
  return {a >> bits | b << 1 << (63 - bits), b >> bits | c << 1 << (63 - bits)};
}

/// Where whole words begin and end, in bytes from the start, and whether some source is not aligned
/// as the output is.
struct Middle {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool shifted = false;
};

template <typename T>
CCOLL_HOST_DEVICE Middle middle_of(const Combination& c) {
  const unsigned out_offset = offset_in_word(c.out);
  if (out_offset % sizeof(T) != 0) return {};
  bool shifted = false;
  CCOLL_NO_UNROLL
  for (std::uint32_t s = 0; s < c.source_count; ++s) {
    shifted |= offset_in_word(c.sources[s]) != out_offset;
  }
  // A shifted word lies in two that begin before it and end behind it.
  const std::uint64_t margin = shifted ? sizeof(Word16) : 0;
  const std::uint64_t begin = (sizeof(Word16) - out_offset) % sizeof(Word16) + margin;
  if (c.bytes < begin + margin + sizeof(Word16)) return {};
  const std::uint64_t words = (c.bytes - begin - margin) / sizeof(Word16);
  return {begin, begin + words * sizeof(Word16), shifted};
}

/// Combines `count` words at `byte` and every `stride` bytes behind it. `load` takes them from each
/// source in a run, so that many loads are in flight at once.
template <typename T, unsigned count, Word16 (*load)(const std::byte*), class Op>
CCOLL_HOST_DEVICE void combine_words(Op op, const Combination& c, std::uint64_t byte,
                                     std::uint64_t stride) {
  Pack<T, Op> packs[count];
  const std::byte* first = c.sources[0] + byte;
  CCOLL_UNROLL
  for (unsigned i = 0; i < count; ++i) packs[i].start(load(first + i * stride));
  CCOLL_NO_UNROLL
  for (std::uint32_t s = 1; s < c.source_count; ++s) {
    const std::byte* next = c.sources[s] + byte;
    Word16 words[count];
    CCOLL_UNROLL
    for (unsigned i = 0; i < count; ++i) words[i] = load(next + i * stride);
    CCOLL_UNROLL
    for (unsigned i = 0; i < count; ++i) packs[i].fold(op, words[i]);
  }
  CCOLL_UNROLL
  for (unsigned i = 0; i < count; ++i) {
    store_data(c.out + byte + i * stride, packs[i].finish(op, c.divisor));
  }
}

template <typename T, class Op>
CCOLL_HOST_DEVICE void combine_element(Op op, const Combination& c, std::uint64_t byte) {
  element::Accumulator<T> value[1] = {element::widen(load_element<T>(c.sources[0] + byte))};
  CCOLL_NO_UNROLL
  for (std::uint32_t s = 1; s < c.source_count; ++s) {
    const element::Accumulator<T> next[1] = {element::widen(load_element<T>(c.sources[s] + byte))};
    op.fold(value, next);
  }
  store_element(c.out + byte, op.template finish<T>(value[0], c.divisor));
}

/// The same thread reads every byte of the output, if it is a source, and writes it.
template <typename T, Block B, class Op>
CCOLL_HOST_DEVICE void combine_folded(const B& block, Op op, const Combination& c) {
  // Each element that is folded takes a register, and one word of bytes has sixteen.
  constexpr unsigned kCount = folds_words<T, Op> || sizeof(T) >= 4 ? 4 : sizeof(T);
  const Middle middle = middle_of<T>(c);
  const std::uint64_t stride = std::uint64_t{block.threads()} * sizeof(Word16);
  std::uint64_t byte = middle.begin + std::uint64_t{block.thread()} * sizeof(Word16);
  if constexpr (kCount > 1) {
    CCOLL_NO_UNROLL
    for (; !middle.shifted && byte + (kCount - 1) * stride < middle.end; byte += kCount * stride) {
      combine_words<T, kCount, &load_data>(op, c, byte, stride);
    }
  }
  CCOLL_NO_UNROLL
  for (; byte < middle.end; byte += stride) combine_words<T, 1, &load_word>(op, c, byte, stride);

  const std::uint64_t skipped = middle.end - middle.begin;
  const std::uint64_t step = std::uint64_t{block.threads()} * sizeof(T);
  CCOLL_NO_UNROLL
  for (byte = block.thread() * sizeof(T); byte < c.bytes - skipped; byte += step) {
    combine_element<T>(op, c, byte < middle.begin ? byte : byte + skipped);
  }
}

template <Block B>
struct BlockFold {
  const B& block;
  const Combination& combination;
  template <typename T, class Op>
  CCOLL_HOST_DEVICE void run(Op op) const {
    combine_folded<T>(block, op, combination);
  }
};

/// A fold of 8 bytes of each source, at some of the sources, whose bytes lie in registers.
struct EightFold {
  static constexpr unsigned kAtOnce = 4;
  const std::uint64_t (&taken)[kAtOnce];
  std::uint32_t first;  ///< the number of the first of these
  std::uint32_t count;  ///< of all sources
  std::uint32_t divisor;
  PackedParts& parts;   ///< of those before these
  std::uint64_t& made;  ///< of all sources
  template <typename T, class Op>
  CCOLL_HOST_DEVICE void run(Op op) const {
    Pack<T, Op> pack;
    if (first == 0) {
      pack.start({taken[0], 0});
    } else {
      pack.resume(parts);
    }
    CCOLL_NO_UNROLL
    for (std::uint32_t s = first == 0 ? 1 : 0; s < kAtOnce && first + s < count; ++s) {
      std::uint64_t next = taken[0];
      CCOLL_UNROLL
      for (unsigned i = 1; i < kAtOnce; ++i) next = i == s ? taken[i] : next;
      pack.fold(op, {next, 0});
    }
    if (first + kAtOnce < count) {
      pack.pause(parts);
    } else {
      made = pack.finish(op, divisor).low;
    }
  }
};

}  // namespace detail

/// Copies; the two may be the same place, but not overlap otherwise. No barrier.
template <Block B>
CCOLL_HOST_DEVICE void copy(const B& block, const std::byte* from, std::byte* to,
                            std::uint64_t bytes) {
  if (from == to) return;
  // These are the bits of one source: nothing is folded.
  detail::combine_folded<std::uint8_t>(block, Fixed<ReduceOp::bit_or>(), {&from, 1, to, bytes, 1});
}

/// `combine` for types and operations of one family, so that a kernel holds no others.
template <Family family, Block B>
CCOLL_HOST_DEVICE void combine_family(const B& block, DataType type, ReduceOp op, Combination c) {
  if (op != ReduceOp::avg) c.divisor = 1;
  if (c.source_count == 1 && c.divisor == 1) {
    copy(block, c.sources[0], c.out, c.bytes);
  } else {
    detail::with_family<family>(type, op, c.divisor, detail::BlockFold<B>{block, c});
  }
}

/// The same by one thread, of 8 bytes of each source. Bytes behind a source's end may be anything,
/// and so is their result. `sources.count()` is the number of sources. `take(s, taken)` gets those
/// from number s on, as many as it is asked for, or returns false: so does this then.
template <Family family, class Sources>
CCOLL_HOST_DEVICE bool combine_eight(DataType type, ReduceOp op, std::uint32_t divisor,
                                     const Sources& sources, std::uint64_t& made) {
  constexpr unsigned kAtOnce = detail::EightFold::kAtOnce;
  if (op != ReduceOp::avg) divisor = 1;
  const std::uint32_t count = sources.count();
  PackedParts parts;
  CCOLL_NO_UNROLL
  for (std::uint32_t first = 0; first < count; first += kAtOnce) {
    std::uint64_t taken[kAtOnce];
    if (!sources.take(first, taken)) return false;
    if (count == 1 && divisor == 1) {
      made = taken[0];
    } else {
      detail::with_family<family>(type, op, divisor,
                                  detail::EightFold{taken, first, count, divisor, parts, made});
    }
  }
  return true;
}

/// Does what the CombineFunction of `type` and `op` does, shared out among the threads of `block`;
/// `op` must be defined on `type`. All threads give the same arguments; no barrier before or after.
template <Block B>
CCOLL_HOST_DEVICE void combine(const B& block, DataType type, ReduceOp op, const Combination& c) {
  switch (family_of(type, op)) {
    case Family::bits:
      return combine_family<Family::bits>(block, type, op, c);
    case Family::integers:
      return combine_family<Family::integers>(block, type, op, c);
    case Family::floats:
      return combine_family<Family::floats>(block, type, op, c);
    case Family::small_floats:
      return combine_family<Family::small_floats>(block, type, op, c);
  }
}

}  // namespace ccoll::device
