// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How kernels are launched, and the room they take on a device.

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "support/gpu/cuda_on_host/device.hpp"

namespace ccoll::testing::cuda {

/// Kernels that run beside the streams.
inline std::atomic<int> kernels_running = 0;
inline auto& refusing =
    *new std::set<int>;  // guarded by mu; the devices that refuse to launch teams

/// The address that stands for a team's kernel: by the variant, and whether it goes by words.
inline char team_kernels[4][2];

/// Kernels may have to be launched once before they can be captured.
bool may_launch(const void* kernel, cudaStream_t stream);
/// Whether the kernel has no effect.
bool leaves_nothing(const void* kernel);
/// Adds a kernel that begins when there is room for all its blocks.
void put_when_there_is_room(cudaStream_t to, unsigned blocks, unsigned threads,
                            std::function<void()> run, bool moves_data = false);

/// The blocks that occupy a device's multiprocessors until their kernel ends. Only kernels that
/// wait for others are counted, because all others end by themselves.
class Room {
 public:
  bool has(unsigned blocks, unsigned threads) {
    const std::lock_guard lock(mu_);
    unsigned all = 0;
    for (const unsigned taken : taken_of_each()) all += (kThreadsAtOnce - taken) / threads;
    return all >= blocks;
  }
  /// Returns the multiprocessor of each block, which is random as on a device.
  std::vector<std::size_t> take(unsigned blocks, unsigned threads) {
    const std::lock_guard lock(mu_);
    auto& taken = taken_of_each();
    std::vector<std::size_t> places;
    while (places.size() < blocks) {
      const std::size_t place = chance() % taken.size();
      if (kThreadsAtOnce - taken[place] < threads) continue;
      taken[place] += threads;
      places.push_back(place);
    }
    return places;
  }
  void give_back(const std::vector<std::size_t>& places, unsigned threads) {
    const std::lock_guard lock(mu_);
    for (const std::size_t place : places) taken_[place] -= threads;
  }
  static Room& of(int device) {
    static auto& all = *new std::map<int, Room>;  // guarded by mu
    return all[device];
  }

 private:
  std::vector<unsigned>& taken_of_each() {
    taken_.resize(static_cast<std::size_t>(multiprocessors));
    return taken_;
  }
  std::mutex mu_;
  std::vector<unsigned> taken_;  // guarded by mu_; threads on each multiprocessor
};

}  // namespace ccoll::testing::cuda
