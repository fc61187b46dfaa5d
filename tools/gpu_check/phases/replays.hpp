// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Graphs of calls that run again and again among plain calls, on other data each time.

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "gpu_check/phases/graph.hpp"

namespace ccoll::gpu_check {

/// Calls of one communicator, or of one team, by the ranks that this thread drives.
class Part {
 public:
  virtual ~Part() = default;
  /// Of each of these ranks.
  virtual std::vector<cudaStream_t> streams() const = 0;
  /// The round's data, by each rank in its stream.
  virtual void put(int round) = 0;
  /// In `streams`, one for each rank: its own or another part's.
  virtual void call(std::span<const cudaStream_t> streams) = 0;
  /// Waits for what its streams have. What is not as it should be; empty where all is.
  virtual std::string wrong() = 0;
};

/// Two parts with as many ranks, captured in one graph and in two. Whoever drives other ranks of
/// them gives the same seed.
class Replays {
 public:
  /// Captures before anything is called.
  Replays(Part& first, Part& second, std::uint64_t seed);

  /// Each round's data is new, and its calls are made in one of the ways there are. Results are
  /// looked at in the first rounds, in some and in the last; others wait for nobody. `judge` is
  /// told what was wrong, if anything, and after how many rounds. `goes_on` is asked now and then,
  /// and says to all drivers alike whether there is to be another round. How many there were.
  int run(int rounds, const std::function<void(const std::string& wrong, int round)>& judge,
          const std::function<bool(int round)>& goes_on);

 private:
  void make_calls(unsigned way);

  Part& first_;
  Part& second_;
  std::mt19937_64 same_;
  std::vector<cudaStream_t> all_;  ///< streams of both
  Graph both_, only_first_, only_second_;
};

}  // namespace ccoll::gpu_check
