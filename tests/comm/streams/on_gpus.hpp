// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Ranks on several GPUs of a process, which the host plays.

#include <functional>
#include <string>
#include <vector>

#include "devices.hpp"

namespace ccoll::testing {

inline constexpr int kGpus = 20;

/// Ranks as threads; each has the given GPU, which is its current one.
inline std::vector<std::string> run_on_gpus(const std::vector<int>& gpu_of_rank,
                                            const std::function<void(Communicator&)>& body,
                                            DeviceWay way = DeviceWay::automatic,
                                            DeviceCopies copies = DeviceCopies::by_size) {
  cuda_on_host_has(kGpus);
  const auto store = make_inproc_store();
  const auto size = static_cast<int>(gpu_of_rank.size());
  return run_threads(size, [&](int rank) {
    auto options = options_for("");
    options.device.ordinal = gpu_of_rank[static_cast<std::size_t>(rank)];
    options.device.way = way;
    options.device.copies = copies;
    check_cuda(cudaSetDevice(options.device.ordinal), "a device");
    auto communicator = Communicator::create(store, rank, size, options);
    body(communicator);
  });
}

}  // namespace ccoll::testing
