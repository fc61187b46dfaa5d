// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The signatures of a communicator's last collectives, and when they began: written, call by call,
/// by the holder of the owner flag, read by any thread. Costs the writer a few stores to one cache
/// line.

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <optional>

#include "comm/record/trace/ticks.hpp"
#include "core/signature.hpp"

namespace ccoll {

class History {
 public:
  static constexpr std::uint64_t kCalls = 256;

  struct Recorded {
    Signature signature;
    std::uint64_t begun = 0;  ///< in processor_ticks()
  };

  /// The number of calls so far.
  std::uint64_t calls() const { return calls_.load(std::memory_order_acquire); }
  /// Returns its number.
  std::uint64_t record(const Signature& signature) {
    const auto number = calls_.load(std::memory_order_relaxed);
    auto& entry = entries_[number % kCalls];
    const auto words = std::bit_cast<std::array<std::uint64_t, 2>>(signature);
    // A thread that reads a new word sees that the entry changes, because that is a release store.
    entry.version.store(0, std::memory_order_relaxed);
    entry.words[0].store(words[0], std::memory_order_release);
    entry.words[1].store(words[1], std::memory_order_release);
    entry.begun.store(processor_ticks(), std::memory_order_release);
    entry.version.store(number + 1, std::memory_order_release);
    calls_.store(number + 1, std::memory_order_release);
    return number;
  }
  /// The record of that call, if it is one of the last.
  std::optional<Recorded> recorded(std::uint64_t number) const {
    const auto& entry = entries_[number % kCalls];
    if (entry.version.load(std::memory_order_acquire) != number + 1) return std::nullopt;
    const std::array words{entry.words[0].load(std::memory_order_acquire),
                           entry.words[1].load(std::memory_order_acquire)};
    const auto begun = entry.begun.load(std::memory_order_acquire);
    if (entry.version.load(std::memory_order_relaxed) != number + 1) return std::nullopt;
    return Recorded{std::bit_cast<Signature>(words), begun};
  }
  std::optional<Signature> at(std::uint64_t number) const {
    const auto found = recorded(number);
    return found ? std::optional(found->signature) : std::nullopt;
  }

 private:
  static_assert(sizeof(Signature) == 2 * sizeof(std::uint64_t));
  struct alignas(32) Entry {
    std::atomic<std::uint64_t> version{0};  // number + 1 while the words are that call's
    std::array<std::atomic<std::uint64_t>, 2> words{};
    std::atomic<std::uint64_t> begun{0};
  };
  static_assert(sizeof(Entry) == 32);

  std::array<Entry, kCalls> entries_;
  std::atomic<std::uint64_t> calls_{0};
};

}  // namespace ccoll
