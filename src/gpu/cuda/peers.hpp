// SPDX-License-Identifier: Apache-2.0
#pragma once

/// GPUs of a process that read and write each other's memory. Only in builds with CUDA; knows no
/// CUDA itself.

#include <span>

#include "core/result.hpp"

namespace ccoll::device {

/// Lets kernels on each of the GPUs access what cudaMalloc gives on each other one, and tries that
/// with data, within 5 s: each pair once in a process. `unsupported` if some cannot, with which
/// ones and why; a trial that hangs is neither used nor freed. Any thread may call; blocks.
Status reach_peers(std::span<const int> devices);

/// Tries in the same way whether copies by one of the GPUs bring its data to each other one. If
/// some do not, this also logs a warning, as soon as it is found.
Status reach_by_copies(std::span<const int> devices);

/// Whether kernels on all of them can access the memory there. reach_peers() has tried that for
/// memory of cudaMalloc. Memory of pools, or mapped (VMM), serves only those that its owner names.
bool is_reached(const void* address, std::span<const int> devices);

}  // namespace ccoll::device
