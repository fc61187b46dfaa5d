// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which ranks to ask whether they are still there, and which of them do not answer. Few questions
/// are in flight at once: a rank that waits for thousands must not use up descriptors, nor meet
/// thousands of others at the rank for which all wait. The caller tells the time and asks.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "core/deadline.hpp"

namespace ccoll::control {

class Probes {
 public:
  using Time = Clock::time_point;

  static constexpr std::size_t kMostAtOnce = 32;

  /// This rank waits for `rank`: to ask it, unless it is being asked.
  void want(std::uint32_t rank, Time now);
  /// A question to ask; `since`: when this rank began to wait.
  struct Question {
    std::uint32_t rank;
    Time since;
  };
  /// The next one, which is then in flight until over(); nothing if there is none, or no room.
  std::optional<Question> next();
  void over(std::uint32_t rank) { in_flight_.erase(rank); }

  void has_answered(std::uint32_t rank) { unanswered_.erase(rank); }
  /// The rank has not answered. Returns how many questions in a row it has left unanswered, if
  /// there are two and half of `limit`, the heartbeat's, lies between the first and now; else 0.
  int is_silent(const Question& question, Time now, std::chrono::milliseconds limit);

 private:
  struct Unanswered {
    Time first;
    Time last;
    int times = 0;
  };

  std::map<std::uint32_t, Time> wanted_;  ///< since when
  std::uint32_t last_ = 0;                ///< asked
  std::set<std::uint32_t> in_flight_;
  std::map<std::uint32_t, Unanswered> unanswered_;
};

}  // namespace ccoll::control
