// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The time of a call: with the same buffers every time and no barrier between calls, in batches.
/// The slowest rank's time counts, for every batch and every call.

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "ccoll/communicator.hpp"

namespace ccoll::bench {

inline constexpr int kBatches = 9;
inline constexpr std::uint64_t kEarlyCalls = 20;

struct Effort {
  std::uint64_t iters = 0;  ///< timed calls in all; 0: as many as a steady figure needs
  std::uint64_t warmup = 3;
};

/// How a row's calls are divided.
struct Batches {
  std::uint64_t count;
  std::uint64_t calls;     ///< in each batch
  std::uint64_t rest = 0;  ///< this many batches have one more call
};

struct Timing {
  double usec = 0;  ///< median over batches of a batch's mean time per call
  std::uint64_t iters = 0;
  /// Over single calls; over batches' means if a call takes less than kTimedSingly.
  double min_us = 0;
  double p50_us = 0;
  double p99_us = 0;
  double max_us = 0;
  double spread = 0;  ///< width of the middle half of the batches, as a share of `usec`
  std::vector<double> batch_us;

  /// Divides the times of a call with `parts` equal parts to get those of one part.
  void divide_by(double parts);
};

/// A program's first calls of a kind, which are slower than those that follow.
struct FirstCalls {
  double first_us = 0;  ///< the first makes programs, and opens links that are not open yet
  double early_us = 0;  ///< the mean of those from the second to the kEarlyCalls-th

  void divide_by(double parts);
};

/// Measured with the steady clock.
double us_since(std::chrono::steady_clock::time_point start);

/// Below this, reading the clock around every call would show in the result.
inline constexpr double kTimedSinglyUs = 10;

/// For calls that take `estimate_us`: about 50 ms per batch, 3 to 20,000 calls; a single one if a
/// call takes longer than 100 ms.
Batches plan_batches(double estimate_us, const Effort& effort);

/// Summarises batches' means and, unless empty, single calls.
Timing summarise(std::vector<double> batch_us, std::vector<double> call_us);

// Collective: every rank of `communicator` times the same calls and gets the same result.

/// Uses the steady clock. `between`, unless empty, runs before every call and is not timed; but a
/// rank's call lasts until the others have reached it.
Timing measure(Communicator& communicator, const Effort& effort, const std::function<void()>& call,
               const std::function<void()>& between = {});

/// On one rank, in us: the mean time of that many consecutive calls; then, if `singly`, each one's.
using BatchTimer = std::function<std::vector<double>(std::uint64_t calls, bool singly)>;
/// Uses the caller's clock.
Timing measure(Communicator& communicator, const Effort& effort, const BatchTimer& timer);

/// Makes the first calls and times them, as measure() does.
FirstCalls measure_first(Communicator& communicator, const std::function<void()>& call,
                         const std::function<void()>& between = {});
FirstCalls measure_first(Communicator& communicator, const BatchTimer& timer);

/// Whether a rank's CPU time is its process's or its thread's.
enum class RankIs { process, thread };

/// The CPU time, in percent of `late`, of a rank in a call that the last rank makes `late` after
/// the others; the largest of all ranks. 100: it spins.
double measure_waiting(Communicator& communicator, std::chrono::milliseconds late, RankIs rank,
                       const std::function<void()>& call);

/// The CPU time, in us, that `put` takes to add a call to a stream; the largest of all ranks.
/// `wait` waits for the stream after each.
double measure_putting(Communicator& communicator, const std::function<void()>& put,
                       const std::function<void()>& wait);

/// The time of a call during which its caller sleeps for `alone_us`, the call's own time, divided
/// by the longer of the two (short sleeps overrun). 1: it progresses beside its caller; 2: only
/// while its caller waits for it.
double measure_overlap(Communicator& communicator, double alone_us,
                       const std::function<void()>& call);

}  // namespace ccoll::bench
