// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Times work in a stream: candidates take turns, so that drift affects all alike.

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "gpu/cuda/cuda.hpp"

namespace ccoll::gpu_check {

/// A timed candidate, which puts its work into the stream.
struct Candidate {
  std::string name;
  double bytes;  ///< read and written
  std::function<Status(cudaStream_t)> work;
  std::vector<double> seconds = {};
};

/// A tenth is below `low`, and a tenth above `high`.
struct Spread {
  double low, median, high;
};
Spread spread_of(std::vector<double> seconds);
double median_of(const Candidate& timed);

class Clockwork {
 public:
  explicit Clockwork(int rounds);
  /// At least one turn of all, for that time, whose results are discarded; then the rounds.
  void run(std::vector<Candidate>& candidates, std::chrono::milliseconds load);
  cudaStream_t stream() const { return stream_.get(); }

 private:
  double time(const Candidate& candidate);

  const int rounds_;
  device::OwnStream stream_;
  device::OwnEvent begin_, end_;
};

}  // namespace ccoll::gpu_check
