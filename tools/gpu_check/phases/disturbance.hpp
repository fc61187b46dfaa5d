// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What else a process may do with its GPU while ccoll has calls there: it may make them wait, but
/// neither wrong nor hang, and is itself right.

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace ccoll::gpu_check {

/// From its making to its end: threads that take and give back memory, launch kernels for the
/// first time, copy on the legacy default stream, and use 40 streams.
class Disturbance {
 public:
  Disturbance();
  Disturbance(const Disturbance&) = delete;
  Disturbance& operator=(const Disturbance&) = delete;

  /// Ends it. What went wrong with it; also where one of the threads has done nothing.
  std::vector<std::string> end();

 private:
  enum Kind : std::size_t { memory, first_use, legacy_stream, many_streams, kinds };

  template <typename Once>
  void start(Kind kind, Once once);

  std::array<std::atomic<std::uint64_t>, kinds> rounds_ = {};
  std::mutex mu_;
  std::vector<std::string> wrong_;  // guarded by mu_
  std::vector<std::jthread> threads_;
};

}  // namespace ccoll::gpu_check
