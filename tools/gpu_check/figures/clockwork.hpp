// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How long work in a stream takes: several candidates in turn, so that what drifts drifts for all.

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "gpu/cuda/cuda.hpp"

namespace ccoll::gpu_check {

/// Something that is timed: puts its work into the stream.
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
  /// A turn of all at least, and for so long, of which nothing is kept; then the rounds.
  void run(std::vector<Candidate>& candidates, std::chrono::milliseconds load);
  cudaStream_t stream() const { return stream_.get(); }

 private:
  double time(const Candidate& candidate);

  const int rounds_;
  device::OwnStream stream_;
  device::OwnEvent begin_, end_;
};

}  // namespace ccoll::gpu_check
