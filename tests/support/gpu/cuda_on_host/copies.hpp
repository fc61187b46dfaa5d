// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Copies within the device's streams.

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>

namespace ccoll::testing::cuda {

inline std::atomic<bool> holds_copies = false;
inline std::atomic<int> held_copies = 0;
/// The bytes copied between a device and pinned memory, and the copies requested.
inline std::atomic<std::uint64_t> copied = 0, copies = 0;

}  // namespace ccoll::testing::cuda
