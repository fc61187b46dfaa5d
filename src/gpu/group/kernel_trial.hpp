// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Whether the team kernels of a group's ranks hear each other: tried with data and a deadline
/// before any call relies on it. Knows no CUDA.

#include "core/result.hpp"
#include "gpu/group/group_calls.hpp"

namespace ccoll::device {

struct KernelTrial {
  Status works;
  bool has_ended = true;  ///< else the kernel may use for ever what it was given
};

/// By all ranks: each gives its patterns to all others by a call through slots, and others by calls
/// by words. `unsupported` where what has come is wrong or late, of either: a flag is such a word,
/// too, so where one cannot be relied on, neither can. What has failed on one rank ends the others'
/// kernels.
KernelTrial try_kernels(GroupCalls& calls, const StreamGroupOptions& options,
                        const SharedGroup& shared, Exchange::TimePoint deadline);

}  // namespace ccoll::device
