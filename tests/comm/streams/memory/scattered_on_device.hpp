// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Scattered buffers in memory of a device that the host plays (support/gpu/cuda_on_host), so that
/// the CPU can touch them.

#include <cstddef>
#include <memory>

#include "comm/scattered.hpp"
#include "support/gpu/device_buffer.hpp"

namespace ccoll::test {

inline std::shared_ptr<std::byte> device_memory(std::size_t bytes) {
  using testing::DevicePool;
  return {static_cast<std::byte*>(DevicePool::take(bytes)),
          [bytes](std::byte* memory) { DevicePool::give_back(memory, bytes, 0); }};
}

}  // namespace ccoll::test
