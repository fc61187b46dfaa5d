// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The memory of the devices and of the host, and which device reaches it.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "support/gpu/allocation_on_host.hpp"
#include "support/gpu/cuda_on_host/device.hpp"

namespace ccoll::testing::cuda {

using testing::AllocationOnHost;

struct Stretch {
  std::size_t bytes = 0;
  int device = 0;
  /// Mapped memory (of pools and VMM allocations): the devices that may access it. Empty for other
  /// memory, which the device and its peers may access.
  std::optional<std::set<int>> open_to = std::nullopt;
  bool is_registered = false;  ///< the host's own memory, registered with CUDA
};

/// Stretches of memory, by first address.
using Stretches = std::map<const void*, Stretch>;
// These are never destroyed, as the device's other state.
inline auto& on_device = *new Stretches;
inline auto& pinned = *new Stretches;
inline auto& of_another = *new Stretches;  // guarded by mu; memory said to belong to another GPU

/// The memory of a device, and of the host that backs it.
constexpr std::size_t kMostBytes = std::size_t{8} << 30;

const Stretch* find(const Stretches& stretches, const void* place);
bool contains(const Stretches& stretches, const void* place);

/// Whether the device's kernels may read and write at `place`.
bool reaches(int device, const void* place);
/// An unreachable address breaks the device, as on a real one.
void check_reach(int device, const void* place);

/// The allocation of cudaMalloc whose pages contain `place`, or null.
AllocationOnHost* allocation_at(const void* place);

/// The address at which this process can access the device's memory at `place`.
template <typename T>
T* seen(T* place) {
  const auto* const at = reinterpret_cast<const std::byte*>(place);
  const AllocationOnHost* const allocation = allocation_at(at);
  return allocation == nullptr ? place : reinterpret_cast<T*>(allocation->seen(at));
}

/// Whether this process has opened the memory, which is another's.
bool is_opened(const void* place);

}  // namespace ccoll::testing::cuda
