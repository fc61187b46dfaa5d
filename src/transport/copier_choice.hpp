// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Who copies what a rank lends again and again, where the receiver can read it where it lies
/// (Copier). To read it once, the kernel finds the sender's memory page by page; to copy it into
/// memory of the link and out of it takes what a cache line takes from core to core. Which is less
/// depends on the processor, the size of the pages, and how far the cores lie from each other,
/// which on a virtual machine changes while it runs: a factor of two to four, either way. So both
/// are tried.
///
/// Of kPeriod transfers the first few go one way and the next few the other, whichever is known to
/// be better, and the others the better way. All ranks of a collective count its calls alike, and
/// so do both ranks of an exchange: they try the same way at a time, and what they compare is that
/// way and not a mixture of both. Nothing depends on their coming to the same result.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

#include "transport/link.hpp"

namespace ccoll {

/// Of one kind of transfers that take about equally long. Not thread-safe.
class CopierChoice {
 public:
  using Clock = std::chrono::steady_clock;

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
      return {better_};
    }
    return {number < kTries ? Copier::receiver : Copier::sender, Clock::now(), true};
  }

  void end(const Transfer& transfer) {
    if (transfer.is_timed) [[unlikely]]
      end(transfer, Clock::now() - transfer.begun);
  }
  /// Of one that is timed: it took so long.
  void end(const Transfer& transfer, Clock::duration took) {
    auto& least = least_[transfer.copier == Copier::sender];
    least = std::min(least, took);
  }

  /// The sender copies shorter slices in any case (shm/link.cpp).
  static constexpr std::size_t kLeastBytes = 16 << 10;
  static constexpr int kPeriod = 512;
  /// The first of them may find caches that the other way has left.
  static constexpr int kTries = 2;
  /// More of the receiver's, the first time: what is lent so often gets pages that are read faster
  /// (shm/huge_pages.hpp).
  static constexpr int kFirstTries = 10;

 private:
  void decide() {
    const auto [receiver, sender] = least_;
    least_ = {kUnknown, kUnknown};
    if (receiver == kUnknown || sender == kUnknown) return;
    // One that is hardly better may be worse.
    if (sender < receiver * 9 / 10) better_ = Copier::sender;
    if (receiver < sender * 9 / 10) better_ = Copier::receiver;
  }

  static constexpr auto kUnknown = Clock::duration::max();
  int next_ = kTries - kFirstTries;
  std::array<Clock::duration, 2> least_{kUnknown,
                                        kUnknown};  ///< if the receiver, the sender copies
  Copier better_ = Copier::receiver;
};

}  // namespace ccoll
