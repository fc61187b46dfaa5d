// SPDX-License-Identifier: Apache-2.0
#pragma once

/// GPUs of a process that read and write each other's memory. Only in builds with CUDA, of which it
/// knows nothing here.

#include <span>

#include "core/result.hpp"

namespace ccoll::device {

/// Lets kernels on each of the GPUs get at what cudaMalloc gives on each other one, and tries that
/// out with data, within 5 s: each pair once in a process. `unsupported` where some do not, with
/// which ones and why; what hangs is neither used nor given back. Any thread may call; waits.
Status reach_peers(std::span<const int> devices);

/// Tries out the same way whether copies that one of the GPUs is told to make bring what it has to
/// each other one; where some do not, that is also a warning, as soon as it is found.
Status reach_by_copies(std::span<const int> devices);

/// Whether kernels on all of them get at the memory there, which reach_peers() has tried out for
/// memory of cudaMalloc: pools' and mapped memory (VMM) is for those alone that its owner names.
bool is_reached(const void* address, std::span<const int> devices);

}  // namespace ccoll::device
