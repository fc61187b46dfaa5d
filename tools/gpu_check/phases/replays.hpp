// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Graphs that are replayed among plain calls, with new data each time.

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "gpu_check/phases/graph.hpp"

namespace ccoll::gpu_check {

/// Calls of one communicator, or of one team, for the ranks that this thread drives.
class Part {
 public:
  virtual ~Part() = default;
  /// One for each of these ranks.
  virtual std::vector<cudaStream_t> streams() const = 0;
  /// Puts the round's data, by each rank in its stream.
  virtual void put(int round) = 0;
  /// Makes the calls in `streams`, one for each rank: its own or another part's.
  virtual void call(std::span<const cudaStream_t> streams) = 0;
  /// Waits for its streams. Describes errors; empty if there are none.
  virtual std::string wrong() = 0;
};

/// Two parts with equal numbers of ranks, captured together in one graph and in two. Drivers of
/// their other ranks must give the same seed.
class Replays {
 public:
  /// Captures before any call.
  Replays(Part& first, Part& second, std::uint64_t seed);

  /// Each round has new data, and makes its calls in a random way. Results are checked in the first
  /// rounds, in some and in the last; other rounds do not wait. `judge` gets the errors, if any,
  /// and the number of rounds. `goes_on` is asked now and then and answers all drivers alike.
  /// Returns the number of rounds.
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
