// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A block of device code on the host, with a thread for each of its threads and a real barrier, so
/// that the thread sanitizer can check it.

#include <barrier>
#include <cstdint>
#include <thread>
#include <vector>

#include "kernels/device/layer.hpp"

namespace ccoll::device {

/// One thread's view of a block of host threads.
class HostBlock {
 public:
  HostBlock(std::uint32_t thread, std::uint32_t threads, std::barrier<>& barrier)
      : thread_(thread), threads_(threads), barrier_(barrier) {}
  std::uint32_t thread() const { return thread_; }
  std::uint32_t threads() const { return threads_; }
  void barrier() const { barrier_.arrive_and_wait(); }

 private:
  std::uint32_t thread_;
  std::uint32_t threads_;
  std::barrier<>& barrier_;
};

/// Runs `f(const HostBlock&)` on each of `threads` threads of one block; returns when all have.
/// `f` must not throw.
template <class F>
void run_block(std::uint32_t threads, const F& f) {
  std::barrier<> barrier(threads);
  std::vector<std::jthread> running;
  running.reserve(threads);
  for (std::uint32_t thread = 0; thread < threads; ++thread) {
    running.emplace_back(
        [&f, &barrier, thread, threads] { f(HostBlock(thread, threads, barrier)); });
  }
}

}  // namespace ccoll::device
