// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Other GPU work of a process beside ccoll's calls: it may delay them, but must neither corrupt
/// nor hang them, and must itself succeed.

#include <array>
#include <atomic>
#include <cstdint>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "system/locks.hpp"

namespace ccoll::gpu_check {

/// While it lives, threads allocate and free memory, launch kernels for the first time, copy on the
/// legacy default stream, and use 40 streams.
class Disturbance {
 public:
  Disturbance();
  Disturbance(const Disturbance&) = delete;
  Disturbance& operator=(const Disturbance&) = delete;

  /// Stops it. Returns its errors, including threads that have done nothing.
  std::vector<std::string> end();

 private:
  enum Kind : std::size_t { memory, first_use, legacy_stream, many_streams, kinds };

  template <typename Once>
  void start(Kind kind, Once once);

  std::array<std::atomic<std::uint64_t>, kinds> rounds_ = {};
  Guarded<std::vector<std::string>> wrong_;
  std::vector<std::jthread> threads_;
};

}  // namespace ccoll::gpu_check
