// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Words of tiny slices under stress: one block writes them as fast as it can, others read them at
/// the same time, and none may be seen whose halves are not of one store. For the host and devices.

#include <cstdint>

#include "gpu/program/tiny_words.hpp"
#include "kernels/device/layer.hpp"

namespace ccoll::test {

struct WordHammer {
  /// Equal to one another before.
  std::uint64_t* words = nullptr;
  std::uint32_t count = 0;
  std::uint64_t rounds = 0;
  /// Added to: how many words were torn, and how often one was seen that had changed.
  std::uint64_t* torn = nullptr;
  std::uint64_t* changes = nullptr;
};

/// What call `call` writes: bits of which few are as in the call before.
CCOLL_HOST_DEVICE constexpr std::uint64_t hammered_word(std::uint64_t call) {
  const std::uint64_t mixed = (call & UINT32_MAX) * 0x9e3779b97f4a7c15;
  return device::tiny_word(call, static_cast<std::uint32_t>(mixed >> 32));
}

/// What block `number` does.
template <device::Block B>
CCOLL_HOST_DEVICE void hammer(const B& block, std::uint32_t number, const WordHammer& with) {
  // All words are equal before and after it, so whoever sees another has met the writer.
  std::uint64_t torn = 0, changes = 0, last = device::load_relaxed(with.words);
  for (std::uint64_t round = 0; round < with.rounds; ++round) {
    for (std::uint32_t i = block.thread(); i < with.count; i += block.threads()) {
      if (number == 0) {
        device::store_relaxed(&with.words[i], hammered_word(round));
        continue;
      }
      // Not the words that the thread of this number writes.
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
