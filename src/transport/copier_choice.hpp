// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Who copies what a rank lends again and again (Copier), where the receiver can read it where it
/// lies. From the sender's process the kernel reads it page by page; through memory of the link it
/// is copied twice, and lines go from core to core; from memory that both have mapped it comes
/// without a copy, but not as near as the link's; and where the sender's results lie that were read
/// so, it is slow to store the next ones. Which takes less depends on the processor, the
/// size of the pages, and how far the cores lie from each other, which on a virtual machine changes
/// while it runs: a factor of up to four, either way. So two ways are tried.
///
/// Of kPeriod transfers the first few go one way and the next few the other, whichever is known to
/// be better, and the others the better way. All ranks of a collective count its calls about alike,
/// and so do both ranks of an exchange: they mostly try the same way at a time, and what they
/// compare is that way and not a mixture of both. Nothing depends on it, nor on their coming to the
/// same result. What has other sizes each time goes the usual way.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <utility>

#include "transport/link.hpp"

namespace ccoll {

/// Of one kind of transfers that take about equally long. Not thread-safe.
class CopierChoice {
 public:
  using Clock = std::chrono::steady_clock;

  explicit CopierChoice(Copier usual = Copier::receiver, Copier other = Copier::sender)
      : ways_{usual, other} {}

  struct Transfer {
    Copier copier = Copier::receiver;
    Clock::time_point begun = {};  ///< of one that is timed
    bool is_timed = false;
  };

  /// Of the next transfer. Not to be ended if it fails.
  Transfer begin() {
    const int number = next_;
    next_ = number + 1 < kPeriod ? number + 1 : 0;
    if (number >= 2 * kTries) [[likely]] {
      if (number == 2 * kTries) decide();
      return {ways_[better_]};
    }
    const bool is_usual = number < kTries;
    const auto copier = ways_[is_usual ? 0 : 1];
    if (number < (is_usual ? kTries : 2 * kTries) - kTimed) return {copier};
    return {copier, Clock::now(), true};
  }

  void end(const Transfer& transfer) {
    if (transfer.is_timed) [[unlikely]]
      end(transfer, Clock::now() - transfer.begun);
  }
  /// Of one that is timed: it took so long.
  void end(const Transfer& transfer, Clock::duration took) {
    auto& least = least_[transfer.copier == ways_[1]];
    least = std::min(least, took);
  }

  /// The sender copies shorter slices in any case (shm/link.cpp).
  static constexpr std::size_t kLeastBytes = 16 << 10;
  static constexpr int kPeriod = 1024;
  static constexpr int kTries = 6;
  /// The last ones: those before find lines where the other way has left them. In whose caches they
  /// are makes half of what either takes.
  static constexpr int kTimed = 3;
  /// Of the usual way, the first time: what is lent so often gets pages that are read faster
  /// (shm/huge_pages.hpp).
  static constexpr int kFirstTries = 12;

 private:
  void decide() {
    const auto least = std::exchange(least_, {kUnknown, kUnknown});
    const auto other = 1 - better_;
    if (least[0] == kUnknown || least[1] == kUnknown) return;
    // One that is hardly better may be worse.
    if (least[other] < least[better_] * 9 / 10) better_ = other;
  }

  static constexpr auto kUnknown = Clock::duration::max();
  int next_ = kTries - kFirstTries;
  std::array<Copier, 2> ways_;
  std::array<Clock::duration, 2> least_{kUnknown, kUnknown};  ///< by way
  std::size_t better_ = 0;
};

}  // namespace ccoll
