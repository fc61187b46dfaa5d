// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The same call on two communicators of the same ranks, in alternating batches, because the speed
/// of machines varies.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "ccoll/ccoll.hpp"

namespace ccoll::bench {

/// Microseconds per call on the slowest rank, determined through `world`.
inline double time_batch(Communicator& world, std::uint64_t calls,
                         const std::function<void()>& call) {
  call();
  world.barrier();
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < calls; i++) call();
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  double slowest = took.count();
  world.all_reduce(Block(&slowest, 1, DataType::float64), ReduceOp::max);
  return slowest / static_cast<double>(calls);
}

inline double quantile(std::vector<double> values, double share) {
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, values.begin() + at);
  return values[static_cast<std::size_t>(at)];
}

/// Indexed by round.
struct SideBySide {
  std::vector<double> plain_us, other_us, ratios;
};

/// An all_reduce of `count` float32, in batches of a millisecond. Collective over all three.
inline SideBySide measure_all_reduce(Communicator& world, Communicator& plain, Communicator& other,
                                     std::size_t count, int rounds) {
  constexpr double kBatchUs = 1000;
  std::vector<float> in(count, 1), out(count);
  const auto call_on = [&](Communicator& communicator) {
    return [&] { communicator.all_reduce(in, Block(out.data(), in.size(), DataType::float32)); };
  };
  const double estimate = time_batch(world, 3, call_on(plain));
  const auto calls = static_cast<std::uint64_t>(std::clamp(kBatchUs / estimate, 1.0, 2000.0));
  SideBySide times;
  for (int round = 0; round < rounds; round++) {
    const bool plain_first = round % 2 == 0;
    const double first = time_batch(world, calls, call_on(plain_first ? plain : other));
    const double second = time_batch(world, calls, call_on(plain_first ? other : plain));
    times.plain_us.push_back(plain_first ? first : second);
    times.other_us.push_back(plain_first ? second : first);
    times.ratios.push_back(times.other_us.back() / times.plain_us.back());
  }
  return times;
}

}  // namespace ccoll::bench
