// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Finds by trial which of two ways to copy lent data takes less time (Copier). In one way the
/// kernel reads the data page by page from the sender's process. In the other they are copied
/// twice, through memory of the link, and lines go from core to core. Memory that both have mapped
/// needs no copy, but is not as near as the link's. Which way is better depends on the processor,
/// the size of the pages, and the distance of the cores, which changes while a virtual machine
/// runs. Either way may take up to four times as long as the other.
///
/// Transfers are counted in windows. A window tries both ways, one after the other, or goes the
/// better one and watches whether its time has changed. The windows that try come ever more rarely,
/// and at once when that time has changed: 31 transfers later the better way is known again. Such
/// trials become rarer if they change nothing, so that noise costs little.
///
/// All ranks of a collective count its calls about alike, and so do both ranks of an exchange. So
/// they mostly try the same way at a time, and compare the ways and not mixtures of both. No rank
/// relies on that, nor on the others coming to the same result. Transfers whose sizes keep changing
/// go the usual way.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "transport/link.hpp"

namespace ccoll {

/// For one kind of transfers, which take about equally long. Not thread-safe.
class CopierChoice {
 public:
  using Clock = std::chrono::steady_clock;

  explicit CopierChoice(Copier usual = Copier::receiver, Copier other = Copier::sender)
      : ways_{usual, other} {}

  /// Before the first transfer: begins with that way, and tries both only some transfers later.
  void estimate(bool prefers) {
    prefer_other(prefers);
    next_trial_ = kSecondTrial;
  }

  struct Transfer {
    Copier copier = Copier::receiver;
    Clock::time_point begun = {};  ///< set if timed
    bool is_timed = false;
  };

  /// The way of the next transfer. If that fails, it is not to be ended.
  Transfer begin() {
    const int number = next_;
    if (number == 0) [[unlikely]]
      begin_window();
    next_ = number + 1 < kWindow ? number + 1 : 0;
    if (tries_) {
      const bool is_usual = number < kTries;
      const auto copier = ways_[is_usual ? 0 : 1];
      if (number < (is_usual ? kTries : kWindow) - kTimed) return {copier};
      return {copier, Clock::now(), true};
    }
    if (number < kWindow - kWatched) [[likely]]
      return {ways_[better_]};
    return {ways_[better_], Clock::now(), true};
  }

  /// One that is neither timed nor counted, the better way.
  Transfer preferred() const { return {ways_[better_]}; }

  /// Whether the other way has been found to be better.
  bool prefers_other() const { return better_ == 1; }
  /// The same, as found elsewhere.
  void prefer_other(bool prefers) { better_ = prefers ? 1 : 0; }
  /// Whether the window of the last transfer tries both ways.
  bool is_trying() const { return tries_; }

  void end(const Transfer& transfer) {
    if (transfer.is_timed) [[unlikely]]
      end(transfer, Clock::now() - transfer.begun);
  }
  /// Ends one that is timed, and took so long.
  void end(const Transfer& transfer, Clock::duration took) {
    times_[transfer.copier == ways_[1] ? 1 : 0].add(took);
  }

  /// The sender copies shorter slices in any case (shm/link.cpp).
  static constexpr std::size_t kLeastBytes = 16 << 10;
  /// Transfers by either way in a window that tries.
  static constexpr int kTries = 7;
  static constexpr int kWindow = 2 * kTries;
  /// Only the last tries are timed: those before find lines in the caches where the other way has
  /// left them. Where lines are makes half of the time of either way.
  static constexpr int kTimed = kTries - 2;
  /// The last transfers of a window without tries are timed, too.
  static constexpr int kWatched = 4;
  /// Windows 0, 2, 5, 10, 20, 40 and 80 try, then one in some 1,000 transfers. Memory that is lent
  /// often gets pages that are read faster (shm/huge_pages.hpp), which the second trial sees.
  static constexpr int kSecondTrial = 2;
  static constexpr int kLongestPause = 73;

 private:
  static constexpr auto kUnknown = Clock::duration::max();

  /// Times of one way in one window.
  class Times {
   public:
    void add(Clock::duration took) {
      if (count_ < kTimed) took_[count_++] = took;
    }
    /// The median. Other work, or a rank that comes late, makes some of them longer. The shortest
    /// would mislead: a rank that is behind finds its data in slots that the other one had to fill.
    Clock::duration usual() const {
      if (count_ < 2) return kUnknown;
      auto sorted = took_;
      const auto middle = sorted.begin() + (count_ - 1) / 2;
      std::nth_element(sorted.begin(), middle, sorted.begin() + count_);
      return *middle;
    }

   private:
    std::array<Clock::duration, kTimed> took_{};
    int count_ = 0;
  };

  void begin_window() {
    const auto times = std::exchange(times_, {});
    if (tries_)
      decide(times);
    else
      watch(times[better_].usual());
    tries_ = window_ == next_trial_ || has_changed_;
    if (tries_) begin_trial();
    window_++;
  }

  void begin_trial() {
    is_extra_ = window_ != next_trial_;
    has_changed_ = false;
    last_trial_ = window_;
    if (is_extra_) return;
    const auto pause = std::clamp<std::int64_t>(window_, kSecondTrial, kLongestPause);
    next_trial_ = window_ == kSecondTrial ? 2 * kSecondTrial + 1 : window_ + pause;
  }

  void decide(const std::array<Times, 2>& times) {
    const std::array took{times[0].usual(), times[1].usual()};
    const auto other = 1 - better_;
    // One that is hardly better may be worse.
    const bool changes =
        took[0] != kUnknown && took[1] != kUnknown && took[other] < took[better_] * 9 / 10;
    if (changes) better_ = other;
    took_ = took[better_];
    if (!is_extra_)
      pause_ = std::max(pause_ / 2, 1);
    else
      pause_ = changes ? 1 : std::min(2 * pause_, kLongestPause);
  }

  void watch(Clock::duration took) {
    if (took == kUnknown) return;
    if (took_ == kUnknown) took_ = took;
    const bool differs = took * 4 > took_ * 5 || took * 5 < took_ * 4;
    has_changed_ = differs && window_ - last_trial_ > pause_;
  }

  int next_ = 0;  ///< transfer of the present window
  bool tries_ = false;
  bool is_extra_ = false;  ///< the last trial came for a change
  bool has_changed_ = false;
  std::int64_t window_ = 0;  ///< the next one
  std::int64_t last_trial_ = 0;
  std::int64_t next_trial_ = 0;
  int pause_ = 1;  ///< least number of windows from a trial to one for a change
  std::array<Copier, 2> ways_;
  std::array<Times, 2> times_;  ///< of the present window, by way
  std::size_t better_ = 0;
  Clock::duration took_ = kUnknown;  ///< by the better way, when it was last tried
};

}  // namespace ccoll
