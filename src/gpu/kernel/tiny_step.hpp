// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The work of a block's threads in a step whose slices travel by words (tiny_words.hpp). Each
/// thread makes its own 8 bytes at a time. It waits for the words that bring these bytes of the
/// received slices, folds them in registers, and writes the result to the store and to sent words.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "gpu/program/program.hpp"
#include "gpu/program/tiny_words.hpp"
#include "kernels/device/combine.hpp"
#include "kernels/device/layer.hpp"

namespace ccoll::device {
namespace detail {

/// Calls `use(address, at, bytes)` for each stretch of the `bytes` bytes that begin at `offset` in
/// this window's slices of `parts`. `at`: how many of these bytes precede the stretch.
template <class Use>
CCOLL_HOST_DEVICE void for_stretches(const TeamLaunch& launch, Range parts, std::uint64_t window,
                                     std::uint64_t offset, std::uint64_t bytes, const Use& use) {
  std::uint64_t at = 0;
  CCOLL_NO_UNROLL
  for (std::uint32_t i = parts.begin; i < parts.end && at < bytes; ++i) {
    const TeamPart& part = launch.program.parts[i];
    const std::uint64_t size = launch.program.bytes_of(part, window);
    if (offset >= size) {
      offset -= size;
      continue;
    }
    const std::uint64_t rest = size - offset < bytes - at ? size - offset : bytes - at;
    use(launch.address_of(part, window) + offset, static_cast<unsigned>(at),
        static_cast<unsigned>(rest));
    at += rest;
    offset = 0;
  }
}

template <typename T>
CCOLL_HOST_DEVICE bool is_of(const std::byte* address, unsigned at, unsigned bytes) {
  return (reinterpret_cast<std::uintptr_t>(address) | at | bytes) % sizeof(T) == 0;
}

/// `bytes` bytes, read as T, at place `at` of the 8.
template <typename T>
CCOLL_HOST_DEVICE std::uint64_t get(const std::byte* from, unsigned at, unsigned bytes) {
  std::uint64_t eight = 0;
  CCOLL_NO_UNROLL
  for (unsigned i = 0; i < bytes; i += sizeof(T)) {
    T value;
    std::memcpy(&value, __builtin_assume_aligned(from + i, sizeof(T)), sizeof(T));
    eight |= std::uint64_t{value} << (at + i) * 8;
  }
  return eight;
}

template <typename T>
CCOLL_HOST_DEVICE void put(std::byte* to, unsigned at, unsigned bytes, std::uint64_t eight) {
  CCOLL_NO_UNROLL
  for (unsigned i = 0; i < bytes; i += sizeof(T)) {
    const T value = static_cast<T>(eight >> (at + i) * 8);
    std::memcpy(__builtin_assume_aligned(to + i, sizeof(T)), &value, sizeof(T));
  }
}

}  // namespace detail

/// One thread's share of a step.
template <Family family, Block B>
class TinyStep {
 public:
  CCOLL_HOST_DEVICE TinyStep(const B& block, const TeamLaunch& launch, std::uint32_t device,
                             std::uint64_t call)
      : block_(block), launch_(launch), program_(launch.program), device_(device), call_(call) {}

  /// Must stand between two barriers, as other threads of the block may read what this one writes.
  /// False if the call is aborted meanwhile.
  CCOLL_HOST_DEVICE bool make(const TeamStep& step, std::uint64_t window) const {
    const Range layout = step.has_store() ? step.store : step.local;
    std::uint64_t bytes = 0;
    for (std::uint32_t i = layout.begin; i < layout.end; ++i) {
      bytes += program_.bytes_of(program_.parts[i], window);
    }
    for (std::uint64_t offset = block_.thread() * kTinyUnit; offset < bytes;
         offset += block_.threads() * kTinyUnit) {
      const std::uint64_t rest = bytes - offset;
      if (!make({step, window, offset, rest < kTinyUnit ? rest : kTinyUnit})) return false;
    }
    return true;
  }

 private:
  /// The bytes of a step's slices that one thread makes at a time.
  struct Unit {
    const TeamStep& step;
    std::uint64_t window;
    std::uint64_t offset;
    std::uint64_t bytes;
    CCOLL_HOST_DEVICE bool has_second_word() const { return bytes > kTinyUnit / 2; }
  };

  /// The sources, as combine_eight asks for them.
  struct Sources {
    const TinyStep& of;
    const Unit& unit;
    CCOLL_HOST_DEVICE std::uint32_t count() const { return unit.step.source_count(); }
    template <unsigned most>
    CCOLL_HOST_DEVICE bool take(std::uint32_t first, std::uint64_t (&taken)[most]) const {
      return of.take(unit, first, taken);
    }
  };

  CCOLL_HOST_DEVICE bool make(const Unit& unit) const {
    const TeamStep& step = unit.step;
    std::uint64_t made = 0;
    const Sources sources{*this, unit};
    if (!combine_eight<family>(program_.type, program_.op, step.divisor, sources, made)) {
      return false;
    }
    detail::for_stretches(launch_, step.store, unit.window, unit.offset, unit.bytes,
                          [&](std::byte* to, unsigned at, unsigned bytes) {
                            if (detail::is_of<std::uint32_t>(to, at, bytes)) {
                              return detail::put<std::uint32_t>(to, at, bytes, made);
                            }
                            detail::put<std::uint8_t>(to, at, bytes, made);
                          });
    CCOLL_NO_UNROLL
    for (std::uint32_t i = step.sends.begin; i < step.sends.end; ++i) {
      const TeamEnd& end = program_.ends[i];
      send(unit, words_of(unit, end, program_.channels[end.channel].to), made);
    }
    return true;
  }

  CCOLL_HOST_DEVICE void send(const Unit& unit, std::uint64_t* to, std::uint64_t made) const {
    store_relaxed(&to[0], tiny_word(call_, static_cast<std::uint32_t>(made)));
    if (!unit.has_second_word()) return;
    store_relaxed(&to[1], tiny_word(call_, static_cast<std::uint32_t>(made >> 32)));
  }

  CCOLL_HOST_DEVICE std::uint64_t* words_of(const Unit& unit, const TeamEnd& end,
                                            std::uint32_t device) const {
    return launch_.state.words[device] + tiny_set(call_) + end.words + tiny_words_of(unit.offset);
  }

  /// Takes the sources from number `first` on, `most` of them or fewer. The loads of all are in
  /// flight at once, until all words are there.
  template <unsigned most>
  CCOLL_HOST_DEVICE bool take(const Unit& unit, std::uint32_t first,
                              std::uint64_t (&taken)[most]) const {
    const std::uint64_t* from[most];
    CCOLL_UNROLL
    for (unsigned i = 0; i < most; ++i) from[i] = find(unit, first + i, taken[i]);
    for (std::uint32_t spins = 1;; ++spins) {
      if (look(unit, from, taken)) return true;
      if (spins % launch_.spins_per_look == 0 && load_relaxed(launch_.abort) != 0) return false;
      relax();
    }
  }

  /// Where a source's words are; null if it has none, and then `taken` is the source.
  CCOLL_HOST_DEVICE const std::uint64_t* find(const Unit& unit, std::uint32_t source,
                                              std::uint64_t& taken) const {
    const TeamStep& step = unit.step;
    taken = 0;
    if (source >= step.source_count()) return nullptr;
    if (!step.has_local() || source != step.own_place) {
      return words_of(unit, program_.ends[step.receive_of(source)], device_);
    }
    detail::for_stretches(launch_, step.local, unit.window, unit.offset, unit.bytes,
                          [&](const std::byte* from, unsigned at, unsigned bytes) {
                            taken |= detail::is_of<std::uint32_t>(from, at, bytes)
                                         ? detail::get<std::uint32_t>(from, at, bytes)
                                         : detail::get<std::uint8_t>(from, at, bytes);
                          });
    return nullptr;
  }

  /// Whether all words are there.
  template <unsigned most>
  CCOLL_HOST_DEVICE bool look(const Unit& unit, const std::uint64_t* const (&from)[most],
                              std::uint64_t (&taken)[most]) const {
    // A word that is not loaded counts as there.
    const std::uint64_t nothing = tiny_word(call_, 0);
    std::uint64_t words[most][2];
    CCOLL_UNROLL
    for (unsigned i = 0; i < most; ++i) {
      words[i][0] = from[i] == nullptr ? nothing : load_relaxed(&from[i][0]);
      words[i][1] =
          from[i] == nullptr || !unit.has_second_word() ? nothing : load_relaxed(&from[i][1]);
    }
    bool are_there = true;
    CCOLL_UNROLL
    for (unsigned i = 0; i < most; ++i) {
      are_there = are_there && is_of_call(words[i][0], call_) && is_of_call(words[i][1], call_);
      if (from[i] != nullptr) taken[i] = (words[i][0] & UINT32_MAX) | words[i][1] << 32;
    }
    return are_there;
  }

  const B& block_;
  const TeamLaunch& launch_;
  const TeamProgram& program_;
  const std::uint32_t device_;  ///< the block's
  const std::uint64_t call_;
};

}  // namespace ccoll::device
