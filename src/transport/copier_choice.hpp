// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Finds by trial which of two ways to copy lent data takes less time (Copier). In one way the
/// kernel reads the data page by page from the sender's process. In the other they are copied
/// twice, through memory of the link, and lines go from core to core. Memory that both have mapped
/// needs no copy, but is not as near as the link's; and a sender is slow to store its next results
/// where the last ones were read. Which way is better depends on the processor, the size of the
/// pages, and the distance of the cores, which changes while a virtual machine runs. Either way may
/// take up to four times as long as the other.
///
/// A period of transfers begins with a few by either way, whichever is known to be better; the rest
/// goes the better way. Periods grow, so that a wrong decision of the beginning does not last. All
/// ranks of a collective count its calls about alike, and so do both ranks of an exchange. So they
/// mostly try the same way at a time, and compare the ways and not mixtures of both. No rank relies
/// on that, nor on the others coming to the same result. Transfers whose sizes keep changing go the
/// usual way.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <utility>

#include "transport/link.hpp"

namespace ccoll {

/// For one kind of transfers, which take about equally long. Not thread-safe.
class CopierChoice {
 public:
  using Clock = std::chrono::steady_clock;

  explicit CopierChoice(Copier usual = Copier::receiver, Copier other = Copier::sender)
      : ways_{usual, other} {}

  struct Transfer {
    Copier copier = Copier::receiver;
    Clock::time_point begun = {};  ///< set if timed
    bool is_timed = false;
  };

  /// The way of the next transfer. If that fails, it is not to be ended.
  Transfer begin() {
    const int number = next_;
    next_ = number + 1 < period_ ? number + 1 : 0;
    if (number >= 2 * tries_) [[likely]] {
      if (number == 2 * tries_) decide();
      const Transfer transfer{ways_[better_]};
      if (next_ == 0) begin_period();
      return transfer;
    }
    const bool is_usual = number < tries_;
    const auto copier = ways_[is_usual ? 0 : 1];
    if (number < (is_usual ? tries_ : 2 * tries_) - kTimed) return {copier};
    return {copier, Clock::now(), true};
  }

  /// One that is neither timed nor counted, the better way.
  Transfer preferred() const { return {ways_[better_]}; }

  /// Whether the other way has been found to be better.
  bool prefers_other() const { return better_ == 1; }
  /// The same, as found elsewhere.
  void prefer_other(bool prefers) { better_ = prefers ? 1 : 0; }

  void end(const Transfer& transfer) {
    if (transfer.is_timed) [[unlikely]]
      end(transfer, Clock::now() - transfer.begun);
  }
  /// Ends one that is timed, and took so long.
  void end(const Transfer& transfer, Clock::duration took) {
    auto& times = times_[transfer.copier == ways_[1] ? 1 : 0];
    times.most = std::max(times.most, took);
    times.sum += took;
    times.count++;
  }

  /// The sender copies shorter slices in any case (shm/link.cpp).
  static constexpr std::size_t kLeastBytes = 16 << 10;
  static constexpr int kFirstPeriod = 64;
  static constexpr int kPeriod = 1024;
  static constexpr int kTries = 6;
  /// Only the last tries are timed: those before find lines in the caches where the other way has
  /// left them. Where lines are makes half of the time of either way.
  static constexpr int kTimed = kTries - 1;
  /// The first period has more tries: memory that is lent so often gets pages that are read faster
  /// (shm/huge_pages.hpp).
  static constexpr int kFirstTries = 12;

 private:
  static constexpr auto kUnknown = Clock::duration::max();

  struct Times {
    Clock::duration most{0};
    Clock::duration sum{0};
    int count = 0;

    /// Leaves out the longest, in which other work may have come between. The shortest alone would
    /// mislead: a rank that is behind finds its data in slots that the other one had to fill.
    Clock::duration mean() const { return count < 2 ? kUnknown : (sum - most) / (count - 1); }
  };

  void decide() {
    const auto times = std::exchange(times_, {});
    const std::array took{times[0].mean(), times[1].mean()};
    const auto other = 1 - better_;
    if (took[0] == kUnknown || took[1] == kUnknown) return;
    // One that is hardly better may be worse.
    if (took[other] < took[better_] * 9 / 10) better_ = other;
  }

  void begin_period() {
    period_ = std::min(2 * period_, kPeriod);
    tries_ = kTries;
  }

  int next_ = 0;  ///< transfer of the present period
  int period_ = kFirstPeriod;
  int tries_ = kFirstTries;  ///< in it, by either way
  std::array<Copier, 2> ways_;
  std::array<Times, 2> times_;  ///< by way
  std::size_t better_ = 0;
};

}  // namespace ccoll
