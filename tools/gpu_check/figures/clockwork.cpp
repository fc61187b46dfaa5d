// SPDX-License-Identifier: Apache-2.0
#include "gpu_check/figures/clockwork.hpp"

#include <algorithm>

#include "core/deadline.hpp"
#include "gpu_check/phases/graph.hpp"

namespace ccoll::gpu_check {

Spread spread_of(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  const auto at = [&](std::size_t tenths) { return seconds[(seconds.size() - 1) * tenths / 10]; };
  return {at(1), at(5), at(9)};
}

double median_of(const Candidate& timed) { return spread_of(timed.seconds).median; }

Clockwork::Clockwork(int rounds)
    : rounds_(rounds),
      stream_(value_or_throw(device::make_stream())),
      begin_(value_or_throw(device::make_event(cudaEventDefault))),
      end_(value_or_throw(device::make_event(cudaEventDefault))) {}

void Clockwork::run(std::vector<Candidate>& candidates, std::chrono::milliseconds load) {
  const auto loaded = deadline_after(load);
  do {
    for (const Candidate& each : candidates) time(each);
  } while (std::chrono::steady_clock::now() < loaded);
  for (int round = 0; round < rounds_; ++round) {
    for (Candidate& each : candidates) each.seconds.push_back(time(each));
  }
}

double Clockwork::time(const Candidate& candidate) {
  check(cudaEventRecord(begin_.get(), stream_.get()), "timing");
  value_or_throw(candidate.work(stream_.get()));
  check(cudaEventRecord(end_.get(), stream_.get()), "timing");
  check(cudaEventSynchronize(end_.get()), candidate.name);
  float ms = 0;
  check(cudaEventElapsedTime(&ms, begin_.get(), end_.get()), "timing");
  return ms / 1e3;
}

}  // namespace ccoll::gpu_check
