// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The search for a rank above this one that answers: rounds of calls, each from this rank upwards,
/// with growing pauses between rounds. It ends with a connection, or at the top. The caller calls.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace ccoll::control {

class Ascent {
 public:
  using Pause = std::chrono::milliseconds;

  static constexpr Pause kFirstPause{100};
  static constexpr Pause kLongestPause{2000};

  explicit Ascent(std::uint32_t self, Pause first_pause = kFirstPause)
      : self_(self), first_pause_(first_pause), last_(self) {}

  bool is_on() const { return on_; }
  /// Returns whether it was on.
  bool begin() { return std::exchange(on_, true); }
  void end() { on_ = false; }

  void begin_round() {
    last_ = self_;
    has_passed_over_ = false;
  }
  /// The last rank called in this round; this rank if there is none.
  std::uint32_t last() const { return last_; }
  bool has_called() const { return last_ != self_; }
  /// The rank did not become this one's peer. `may_come`: it may answer in a later round.
  void missed(std::uint32_t rank, bool may_come) {
    last_ = rank;
    has_passed_over_ |= may_come;
  }
  /// Whether another round may find a rank that this one has not.
  bool has_passed_over() const { return has_passed_over_; }
  void shorten_pause() { pause_ = first_pause_; }
  /// The pause before the next round.
  Pause next_pause() { return std::exchange(pause_, std::min(2 * pause_, kLongestPause)); }

 private:
  const std::uint32_t self_;
  const Pause first_pause_;
  bool on_ = false;
  std::uint32_t last_;
  bool has_passed_over_ = false;
  Pause pause_ = first_pause_;
};

}  // namespace ccoll::control
