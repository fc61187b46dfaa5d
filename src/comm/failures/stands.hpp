// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Where ranks stand in a call that is close to its time limit: the rank asks those that it waits
/// for, and their service threads answer. The answers are part of the error, and no more.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/record/history.hpp"
#include "comm/record/times.hpp"
#include "schedule/problem.hpp"
#include "system/locks.hpp"

namespace ccoll {

/// This rank's position in a call, while nothing moves there.
struct StandReport {
  std::uint64_t sequence = 0;
  std::string words;
  std::chrono::steady_clock::time_point since;
};

/// This rank's answer to ranks that ask, the answers to its own last question, and the cycles of
/// waiting ranks that control has found. Any thread may use it; nobody waits for the owner flag,
/// which the waiting thread holds.
class Stands {
 public:
  using Clock = std::chrono::steady_clock;

  /// A call, and the ranks that are asked where they stand in it.
  struct Question {
    std::uint64_t sequence = 0;
    Clock::time_point at;
    std::vector<Rank> ranks;
  };

  /// The history must outlive it; `clocks` when it began.
  Stands(const History& history, const Clocks& clocks) : history_(history), clocks_(clocks) {}

  /// Sets the answer for ranks that ask; nothing: this rank moves.
  void set(std::optional<StandReport> stand);
  /// The answer to a rank that asks about that call, or about a message.
  std::string answer(std::uint64_t sequence, Clock::time_point now) const;

  /// Replaces the last question. Returns the ranks to ask: each once, and only the first few.
  std::vector<Rank> ask(Question question);
  /// Ignores ranks that were not asked about that call.
  void take_answer(Rank from, std::uint64_t sequence, std::string_view said);
  /// "; asked 499 ms before: rank 1 had not reached this call …"; empty if no rank was asked.
  std::string answers_about(std::uint64_t sequence, Clock::time_point now) const;
  /// The first needed rank that has not come to that call, else the first needed one that did not
  /// answer. A rank that was asked may have come since, and is not needed any more.
  std::optional<Rank> absent(std::uint64_t sequence, const std::vector<Rank>& needed) const;

  void note_cycle(std::uint64_t sequence, const std::string& cycle);
  /// Empty if none is known.
  std::string cycle_of(std::uint64_t sequence) const;

  /// In a forked child, where the thread that held the lock may be gone.
  void forget_lock() { known_.forget_lock(); }

 private:
  struct Known {
    std::optional<StandReport> stand;
    std::optional<Question> asked;
    std::map<Rank, std::string> answers;          ///< to `asked`
    std::map<std::uint64_t, std::string> cycles;  ///< by sequence
  };

  /// " 20 ms before"; empty if that is not known any more.
  std::string began_before(std::uint64_t call) const;
  /// The answer if no call is named.
  std::string anywhere(const std::optional<StandReport>& stand, Clock::time_point now) const;

  const History& history_;
  const Clocks clocks_;
  Guarded<Known> known_;
};

}  // namespace ccoll
