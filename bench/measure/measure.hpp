// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How long a call takes: the same buffers every time and no barrier between calls, in batches. Of
/// every batch and every call the slowest rank counts.

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "ccoll/communicator.hpp"

namespace ccoll::bench {

inline constexpr int kBatches = 9;

struct Effort {
  std::uint64_t iters = 0;  ///< timed calls in all; 0: as many as a steady figure needs
  std::uint64_t warmup = 3;
};

/// How a row's calls are dealt out.
struct Batches {
  std::uint64_t count;
  std::uint64_t calls;     ///< in each
  std::uint64_t rest = 0;  ///< so many of them have one more
};

struct Timing {
  double usec = 0;  ///< median over batches of a batch's mean time per call
  std::uint64_t iters = 0;
  /// Over single calls; over batches' means where a call takes less than kTimedSingly.
  double min_us = 0;
  double p50_us = 0;
  double p99_us = 0;
  double max_us = 0;
  double spread = 0;  ///< how far the middle half of the batches lies apart, as a share of `usec`
  std::vector<double> batch_us;

  /// The times of a call that has `parts` equal parts become those of one part.
  void divide_by(double parts);
};

/// By the steady clock.
double us_since(std::chrono::steady_clock::time_point start);

/// Below this a clock reading round every call would show in the result.
inline constexpr double kTimedSinglyUs = 10;

/// For calls that take `estimate_us`: about 50 ms a batch, 3 to 20,000 calls, and one where a call
/// takes longer than 100 ms.
Batches plan_batches(double estimate_us, const Effort& effort);

/// The figures of batches' means and, unless empty, of single calls.
Timing summarise(std::vector<double> batch_us, std::vector<double> call_us);

// Collective: every rank of `communicator` times the same calls and gets the same result.

/// By the steady clock. `between`, unless empty, runs before every call and does not count; but a
/// rank's call lasts until the others have come to it.
Timing measure(Communicator& communicator, const Effort& effort, const std::function<void()>& call,
               const std::function<void()>& between = {});

/// On one rank, in us: the mean time of so many calls, one behind another, then, `singly`, that of
/// each.
using BatchTimer = std::function<std::vector<double>(std::uint64_t calls, bool singly)>;
/// By a clock of the caller's.
Timing measure(Communicator& communicator, const Effort& effort, const BatchTimer& timer);

/// Whose processor time is a rank's.
enum class RankIs { process, thread };

/// The processor time, in percent of `late`, of a rank that waits in a call which the last rank
/// makes `late` after the others: of the rank that uses most. 100: it spins.
double measure_waiting(Communicator& communicator, std::chrono::milliseconds late, RankIs rank,
                       const std::function<void()>& call);

/// The processor time, in us, of the thread that calls `put`, by which a stream gets a call, until
/// that has returned: of the rank that uses most. `wait`, for the stream, comes behind each.
double measure_putting(Communicator& communicator, const std::function<void()>& put,
                       const std::function<void()>& wait);

/// The time of a call during which its caller sleeps for `alone_us`, what the call takes by itself,
/// as a multiple of the longer of the two (short sleeps last longer than asked for). 1: it goes on
/// beside its caller; 2: only when its caller waits for it.
double measure_overlap(Communicator& communicator, double alone_us,
                       const std::function<void()>& call);

}  // namespace ccoll::bench
