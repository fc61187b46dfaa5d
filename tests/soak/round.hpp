// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One round of the soak: the file that tools/soak writes for its ranks, and their reports that it
/// judges.

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace ccoll::testing::soak {

/// A process dies this long after the given generation of communicators begins on one of its ranks.
/// An earlier generation counts if no rank remains that would die before.
struct Death {
  int generation = 0;
  int microseconds = 0;
  bool freezes = false;  ///< it is stopped for good instead of killed
};

struct Round {
  std::string directory;
  std::string transport;
  std::string interface;
  std::string token;
  std::uint64_t seed = 0;  ///< for the operations
  int operations = 0;      ///< in a generation without deaths
  bool faults_at_start = false;
  bool checksum = false;
  int heartbeat_ms = 10'000;
  std::vector<std::vector<int>> processes;   ///< each process's ranks
  std::vector<std::string> faults;           ///< by process, see faults.hpp
  std::vector<std::optional<Death>> deaths;  ///< by process
  std::vector<int> slow;                     ///< ranks that are slow

  int size() const {
    std::size_t all = 0;
    for (const auto& ranks : processes) all += ranks.size();
    return static_cast<int>(all);
  }
  /// The generation in which the first of these ranks dies; none if none will.
  std::optional<int> next_death(const std::vector<int>& ranks) const {
    std::optional<int> next;
    for (std::size_t i = 0; i < processes.size(); i++)
      if (deaths[i] && std::ranges::find_first_of(processes[i], ranks) != processes[i].end())
        next = std::min(next.value_or(deaths[i]->generation), deaths[i]->generation);
    return next;
  }
};

Round read_round(const std::string& path);

/// Writes whole lines of JSON, even if several threads write or the process is killed.
class Report {
 public:
  explicit Report(const std::string& path);
  void write(const nlohmann::json& line);
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

/// Gives the same numbers on every rank that draws from the same seed.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  int from(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }
  bool chance(int percent) { return from(1, 100) <= percent; }

 private:
  std::mt19937_64 random_;
};

}  // namespace ccoll::testing::soak
