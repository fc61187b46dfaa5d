// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The words by which the streams of several processes wait for each other, and are ended. They lie
/// in host memory that all processes and their GPUs map. So they need no path between GPUs, and any
/// process can let all streams go on. Knows no CUDA.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "core/result.hpp"
#include "gpu/program/rank_steps.hpp"
#include "kernels/device/combine_kernel.hpp"
#include "kernels/device/layer.hpp"

namespace ccoll::device {

/// The memory must be zero at first.
class GroupWords {
 public:
  GroupWords(std::byte* memory, std::uint32_t size, std::uint32_t links)
      : memory_(memory), size_(size), links_(links) {}

  static std::size_t bytes(std::uint32_t size, std::uint32_t links) {
    const GroupWords end(nullptr, size, links);
    return end.places_at(size, 0);
  }

  // These are the offsets of words from the memory's beginning.
  static constexpr std::size_t abort_at() { return offsetof(Head, abort); }
  /// Waiting kernels poll this: two words, taken as one of 64 bits.
  static constexpr std::size_t ends_at() { return offsetof(Head, ends); }
  /// The step that rank `rank` has begun.
  static constexpr std::size_t begun_at(std::uint32_t rank) { return kRanksAt + kRankBytes * rank; }
  /// Two words for a trial of streams that wait for words.
  static constexpr std::size_t trial_at(std::uint32_t rank) { return begun_at(rank) + 8; }
  /// The loans of rank `rank`: kLoanWords of its input, then of its output.
  static constexpr std::size_t loans_at(std::uint32_t rank, std::size_t buffer) {
    return begun_at(rank) + 16 + buffer * kLoanWords * sizeof(std::uint32_t);
  }
  /// The number of the uncaptured call that rank `rank` has begun last, and behind it that of the
  /// one that it has ended last. They show whether graphs run beside such calls.
  static constexpr std::size_t plain_at(std::uint32_t rank) { return loans_at(rank, 2); }
  /// As wide as ends_at(): not 0 if a kernel of rank `rank` has found another call under way, and
  /// ended both.
  static constexpr std::size_t busy_at(std::uint32_t rank) { return plain_at(rank) + 8; }
  /// Words from one rank's to the next one's.
  static constexpr std::uint32_t loan_stride() { return kRankBytes / sizeof(std::uint32_t); }
  /// The memory of `lender` that `reader` has mapped.
  std::size_t places_at(std::uint32_t reader, std::uint32_t lender) const {
    const std::size_t channels = 8 * std::size_t{size_} * size_ * links_;
    const std::size_t first = (channels_at() + channels + 63) / 64 * 64;
    const std::size_t pair = std::size_t{reader} * size_ + lender;
    return first + pair * kLoanPlaces * sizeof(LoanPlace);
  }
  LoanPlace& place(std::uint32_t reader, std::uint32_t lender, std::uint32_t number) const {
    auto* const places = reinterpret_cast<LoanPlace*>(memory_ + places_at(reader, lender));
    return places[number % kLoanPlaces];
  }
  std::size_t at(const StepWord& word) const {
    const std::size_t channel = (std::size_t{word.from} * size_ + word.to) * links_ + word.link;
    return channels_at() + 8 * channel + (word.popped ? 4 : 0);
  }
  std::uint32_t* word(std::size_t at) const {
    return reinterpret_cast<std::uint32_t*>(memory_ + at);
  }

  /// The first cause wins; false where there is one already.
  bool give_up(std::uint32_t rank, const Failure& why) const {
    Head& head = *reinterpret_cast<Head*>(memory_);
    std::uint32_t none = 0;
    // `said` publishes the fields below.
    if (!std::atomic_ref(head.abort).compare_exchange_strong(none, rank + 1)) return false;
    head.kind = static_cast<std::uint32_t>(why.kind);
    head.culprit = why.culprit ? *why.culprit + 1 : 0;
    head.length = static_cast<std::uint32_t>(std::min(why.message.size(), sizeof head.text));
    std::memcpy(head.text, why.message.data(), head.length);
    store_release(&head.said, kSaid);
    return true;
  }
  /// Whether all is over; never waits.
  bool is_over() const {
    const Head& head = *reinterpret_cast<const Head*>(memory_);
    return load_acquire(&head.ends) != 0 || load_acquire(&head.abort) != 0;
  }
  /// Why all is over, as rank `rank` reports it; empty if it is not.
  std::optional<Failure> cause(std::uint32_t rank) const {
    Head& head = *reinterpret_cast<Head*>(memory_);
    // A host stores the abort word, which has its rank, before it ends all.
    const bool has_ended = load_acquire(&head.ends) != 0;
    const std::uint32_t by = load_acquire(&head.abort);
    if (by == 0) return has_ended ? std::optional(ended_by_kernel()) : std::nullopt;
    const bool mine = by == rank + 1;
    // The text follows at once, unless that rank's process ends just there.
    for (int looks = 0; load_acquire(&head.said) != kSaid; ++looks) {
      // Nobody waits in vain a second time.
      if (looks == kLooksForText) store_release(&head.said, kSaysNothing);
      if (load_acquire(&head.said) == kSaysNothing)
        return Failure{ErrorKind::aborted, fmt::format("rank {} has given up", by - 1),
                       std::nullopt};
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const std::string_view text(head.text, std::min<std::size_t>(head.length, sizeof head.text));
    Failure failure{static_cast<ErrorKind>(head.kind),
                    mine ? std::string(text) : fmt::format("rank {} gave up: {}", by - 1, text),
                    std::nullopt};
    if (head.culprit != 0) failure.culprit = head.culprit - 1;
    return failure;
  }
  /// Stores values that let every stream of every rank go on. What a stream still writes may undo
  /// one of them, so this is repeated until the own stream has ended.
  void release() const {
    store_release(&reinterpret_cast<Head*>(memory_)->ends, std::uint64_t{1});
    const std::size_t words = 2 * std::size_t{size_} * size_ * links_;
    std::uint32_t* const first = word(channels_at());
    for (std::size_t i = 0; i < words; ++i) store_relaxed(first + i, kReleased);
  }

 private:
  static constexpr int kLooksForText = 200;
  static constexpr std::uint32_t kSaid = 1, kSaysNothing = 2;

  struct Head {
    std::uint64_t ends;     ///< not 0: kernels that wait must end
    std::uint32_t abort;    ///< 1 + the first rank that gave up; steps poll it
    std::uint32_t said;     ///< kSaid: the rest is complete; kSaysNothing: it will not be
    std::uint32_t kind;     ///< ErrorKind
    std::uint32_t culprit;  ///< 1 + a rank; 0: none
    std::uint32_t length;
    char text[996];
  };
  /// The failure if a kernel ended all; such a kernel sets its busy word first.
  Failure ended_by_kernel() const {
    std::uint32_t by = 0;
    const auto is_busy = [this](std::uint32_t rank) {
      return load_acquire(reinterpret_cast<const std::uint64_t*>(memory_ + busy_at(rank))) != 0;
    };
    while (by + 1 < size_ && !is_busy(by)) ++by;
    return {ErrorKind::aborted,
            fmt::format("rank {}'s call of a team found another one under way on the device: a "
                        "graph must not run beside another call of the same team",
                        by),
            std::nullopt};
  }

  static constexpr std::size_t kRankBytes = 64;
  static_assert(16 + 2 * kLoanWords * sizeof(std::uint32_t) + 16 <= kRankBytes);
  static constexpr std::size_t kRanksAt = (sizeof(Head) + kRankBytes - 1) / kRankBytes * kRankBytes;
  std::size_t channels_at() const { return begun_at(size_); }

  std::byte* const memory_;
  const std::uint32_t size_;
  const std::uint32_t links_;
};

}  // namespace ccoll::device
