// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/measure.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <span>
#include <thread>

#include "ccoll/call_group.hpp"

namespace ccoll::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kBatchUs = 50'000;
constexpr double kLongCallUs = 100'000;

/// The value below which `share` of the sorted values lie, by nearest rank.
double quantile(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * double(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

/// Warms up and returns rank 0's estimate of a call to all ranks, because they must agree on the
/// number of calls.
double warm_up(Communicator& communicator, std::uint64_t calls, const BatchTimer& timer) {
  // The first call opens links and makes programs, so its time is not typical.
  if (calls > 1) timer(1, false);
  const std::uint64_t rest = calls > 1 ? calls - 1 : calls;
  double estimate = rest > 0 ? timer(rest, false)[0] : 0;
  communicator.broadcast(std::span(&estimate, 1), 0);
  return estimate;
}

/// Like time_batch(), with `between` before every call.
std::vector<double> time_batch_with(std::uint64_t calls, bool singly,
                                    const std::function<void()>& call,
                                    const std::function<void()>& between) {
  std::vector<double> times(1);
  for (std::uint64_t i = 0; i < calls; i++) {
    between();
    const auto start = Clock::now();
    call();
    const double time = us_since(start);
    times[0] += time / double(calls);
    if (singly) times.push_back(time);
  }
  return times;
}

/// The times of one batch on this rank: its mean, then each call's if timed singly.
std::vector<double> time_batch(std::uint64_t calls, bool singly,
                               const std::function<void()>& call) {
  std::vector<double> times(singly ? calls + 1 : 1);
  const auto start = Clock::now();
  if (singly) {
    auto before = start;
    for (std::uint64_t i = 0; i < calls; i++) {
      call();
      const auto now = Clock::now();
      times[i + 1] = std::chrono::duration<double, std::micro>(now - before).count();
      before = now;
    }
  } else {
    for (std::uint64_t i = 0; i < calls; i++) call();
  }
  times[0] = us_since(start) / double(calls);
  return times;
}

/// The time of one batch of calls that all ranks begin together, on the slowest rank.
double time_together(Communicator& communicator, std::uint64_t calls, const BatchTimer& timer) {
  communicator.barrier();
  double time = timer(calls, false)[0];
  communicator.all_reduce(std::span(&time, 1), ReduceOp::max);
  return time;
}

/// `warming` times the warm-up calls.
Timing measure_by(Communicator& communicator, const Effort& effort, const BatchTimer& warming,
                  const BatchTimer& timer) {
  // The number of calls is derived from an estimate.
  const std::uint64_t warmup =
      effort.iters > 0 ? effort.warmup : std::max<std::uint64_t>(effort.warmup, 1);
  const double estimate = warm_up(communicator, warmup, warming);
  const Batches batches = plan_batches(estimate, effort);
  const bool singly = warmup == 0 || estimate >= kTimedSinglyUs;
  std::vector<double> means;
  std::vector<double> calls;
  for (std::uint64_t b = 0; b < batches.count; b++) {
    communicator.barrier();
    std::vector<double> times = timer(batches.calls + (b < batches.rest ? 1 : 0), singly);
    communicator.all_reduce(std::span(times), ReduceOp::max);
    means.push_back(times[0]);
    calls.insert(calls.end(), times.begin() + 1, times.end());
  }
  Timing timing = summarise(std::move(means), std::move(calls));
  timing.iters = batches.count * batches.calls + batches.rest;
  return timing;
}

/// In each of `rounds`, takes the largest value of all ranks; returns the median.
double median_of_worst(Communicator& communicator, int rounds,
                       const std::function<double()>& round) {
  std::vector<double> figures;
  for (int i = 0; i < rounds; i++) {
    communicator.barrier();
    double figure = round();
    communicator.all_reduce(std::span(&figure, 1), ReduceOp::max);
    figures.push_back(figure);
  }
  std::ranges::sort(figures);
  return figures[figures.size() / 2];
}

double cpu_us(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return double(now.tv_sec) * 1e6 + double(now.tv_nsec) / 1e3;
}

}  // namespace

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

void Timing::divide_by(double parts) {
  for (double* time : {&usec, &min_us, &p50_us, &p99_us, &max_us}) *time /= parts;
  for (double& time : batch_us) time /= parts;
}

void FirstCalls::divide_by(double parts) {
  first_us /= parts;
  early_us /= parts;
}

Batches plan_batches(double estimate_us, const Effort& effort) {
  if (effort.iters > 0) {
    const std::uint64_t count = std::min<std::uint64_t>(kBatches, effort.iters);
    return {count, effort.iters / count, effort.iters % count};
  }
  if (estimate_us > kLongCallUs) return {kBatches, 1};
  const double calls = kBatchUs / std::max(estimate_us, 0.001);
  return {kBatches, static_cast<std::uint64_t>(std::clamp(calls, 3.0, 20'000.0))};
}

Timing summarise(std::vector<double> batch_us, std::vector<double> call_us) {
  Timing timing;
  timing.batch_us = batch_us;
  std::sort(batch_us.begin(), batch_us.end());
  timing.usec = batch_us[batch_us.size() / 2];
  if (timing.usec > 0) {
    timing.spread = (quantile(batch_us, 0.75) - quantile(batch_us, 0.25)) / timing.usec;
  }
  std::vector<double>& figures = call_us.empty() ? batch_us : call_us;
  std::sort(figures.begin(), figures.end());
  timing.min_us = figures.front();
  timing.p50_us = quantile(figures, 0.50);
  timing.p99_us = quantile(figures, 0.99);
  timing.max_us = figures.back();
  return timing;
}

Timing measure(Communicator& communicator, const Effort& effort, const std::function<void()>& call,
               const std::function<void()>& between) {
  const BatchTimer warming = [&](std::uint64_t calls, bool singly) {
    return time_batch(calls, singly, call);
  };
  if (!between) return measure_by(communicator, effort, warming, warming);
  return measure_by(communicator, effort, warming, [&](std::uint64_t calls, bool singly) {
    return time_batch_with(calls, singly, call, between);
  });
}

Timing measure(Communicator& communicator, const Effort& effort, const BatchTimer& timer) {
  return measure_by(communicator, effort, timer, timer);
}

FirstCalls measure_first(Communicator& communicator, const std::function<void()>& call,
                         const std::function<void()>& between) {
  return measure_first(communicator, [&](std::uint64_t calls, bool singly) {
    return between ? time_batch_with(calls, singly, call, between)
                   : time_batch(calls, singly, call);
  });
}

FirstCalls measure_first(Communicator& communicator, const BatchTimer& timer) {
  FirstCalls firsts;
  firsts.first_us = time_together(communicator, 1, timer);
  firsts.early_us = time_together(communicator, kEarlyCalls - 1, timer);
  return firsts;
}

double measure_waiting(Communicator& communicator, std::chrono::milliseconds late, RankIs rank,
                       const std::function<void()>& call) {
  constexpr int kRounds = 3;
  const bool is_late = communicator.rank() == communicator.size() - 1;
  const auto clock = rank == RankIs::process ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_THREAD_CPUTIME_ID;
  const double us = median_of_worst(communicator, kRounds, [&] {
    const double before = cpu_us(clock);
    if (is_late) std::this_thread::sleep_for(late);
    call();
    return is_late ? 0 : cpu_us(clock) - before;
  });
  return 100 * us / std::chrono::duration<double, std::micro>(late).count();
}

double measure_putting(Communicator& communicator, const std::function<void()>& put,
                       const std::function<void()>& wait) {
  return median_of_worst(communicator, kBatches, [&] {
    const double before = cpu_us(CLOCK_THREAD_CPUTIME_ID);
    put();
    const double used = cpu_us(CLOCK_THREAD_CPUTIME_ID) - before;
    wait();
    return used;
  });
}

double measure_overlap(Communicator& communicator, double alone_us,
                       const std::function<void()>& call) {
  const std::chrono::duration<double, std::micro> alone(alone_us);
  return median_of_worst(communicator, kBatches, [&] {
    const auto start = Clock::now();
    // In a group, blocking calls only begin.
    group_begin();
    call();
    const auto asleep = Clock::now();
    std::this_thread::sleep_for(alone);
    const double slept_us = us_since(asleep);
    group_end();
    return us_since(start) / std::max(slept_us, alone_us);
  });
}

}  // namespace ccoll::bench
