// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The host's side of the device kernels, without CUDA headers. In a build without CUDA everything
/// here says so.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/result.hpp"
#include "kernels/device/combine_kernel.hpp"

struct CUstream_st;

namespace ccoll::device {

struct CopyOrder;

/// A cudaStream_t.
using Stream = CUstream_st*;

/// How many blocks, and threads in each (at most kMostThreads), a launch has.
struct LaunchShape {
  std::uint32_t blocks = 1;
  std::uint32_t threads = 512;
};

/// Does what a CombineFunction does (kernels/combine.hpp), on the current device, in the order of
/// `stream`: returns without waiting. Pointers must be valid on the device; at most kMostSources.
/// `unsupported` if `op` is not defined on `type` or the build has no CUDA; otherwise CUDA's error.
/// `lent`: for each source, or empty.
Status launch_combine(DataType type, ReduceOp op, std::span<const std::byte* const> sources,
                      std::byte* out, std::uint64_t elems, std::uint32_t divisor, LaunchShape shape,
                      Stream stream, LaunchWords words = {}, std::span<const LentSource> lent = {});

/// Copies on the current device, in the order of `stream`. The two may be the same place, but not
/// overlap otherwise.
Status launch_copy(const std::byte* from, std::byte* to, std::uint64_t bytes, LaunchShape shape,
                   Stream stream, LaunchWords words = {});

/// Makes the copies that the host has ordered by then for launch `number` (ordered_copies.hpp);
/// `order` is where the device sees them.
Status launch_ordered_copies(const CopyOrder* order, std::uint32_t number, LaunchShape shape,
                             Stream stream);

/// Loads the kernels of launch_combine on the current device. Otherwise CUDA would at the first
/// launch of each, and might wait for all streams of the process then.
Status load_kernels();
/// The same for launch_ordered_copies.
Status load_ordered_copies();

/// One line: which CUDA, driver and GPUs there are, or why there are none. Creates no context.
std::string describe_cuda();

}  // namespace ccoll::device
