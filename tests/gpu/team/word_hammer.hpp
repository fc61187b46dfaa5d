// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Stress for words of tiny slices: one block writes them as fast as it can while others read them.
/// No word may be seen with halves of different stores. It runs on the host and on devices.

#include <cstdint>

#include "gpu/program/tiny_words.hpp"
#include "kernels/device/layer.hpp"

namespace ccoll::test {

struct WordHammer {
  /// All equal before the run.
  std::uint64_t* words = nullptr;
  std::uint32_t count = 0;
  std::uint64_t rounds = 0;
  /// Incremented: how many words were torn, and how often a word had changed.
  std::uint64_t* torn = nullptr;
  std::uint64_t* changes = nullptr;
};

/// The word of call `call`, most of whose bits differ from the call before.
CCOLL_HOST_DEVICE constexpr std::uint64_t hammered_word(std::uint64_t call) {
  const std::uint64_t mixed = (call & UINT32_MAX) * 0x9e3779b97f4a7c15;
  return device::tiny_word(call, static_cast<std::uint32_t>(mixed >> 32));
}

/// The part of block `number`.
template <device::Block B>
CCOLL_HOST_DEVICE void hammer(const B& block, std::uint32_t number, const WordHammer& with) {
  // All words are equal before and after, so a reader that sees another has met the writer.
  std::uint64_t torn = 0, changes = 0, last = device::load_relaxed(with.words);
  for (std::uint64_t round = 0; round < with.rounds; ++round) {
    for (std::uint32_t i = block.thread(); i < with.count; i += block.threads()) {
      if (number == 0) {
        device::store_relaxed(&with.words[i], hammered_word(round));
        continue;
      }
      // Other words than the thread of this number writes.
      const std::uint64_t seen =
          device::load_relaxed(&with.words[(i + number * 7 + round) % with.count]);
      torn += seen != hammered_word(seen >> 32) ? 1 : 0;
      changes += seen != last ? 1 : 0;
      last = seen;
    }
    device::relax();
  }
  if (number == 0) return;
  device::add(with.torn, torn);
  device::add(with.changes, changes);
}

}  // namespace ccoll::test
