// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Tries, with data and a deadline, whether the team kernels of a group's ranks hear each other.
/// This comes before any call relies on it. Knows no CUDA.

#include "core/result.hpp"
#include "gpu/group/group_calls.hpp"

namespace ccoll::device {

struct KernelTrial {
  Status works;
  bool has_ended = true;  ///< else the kernel may use its memory for ever
};

/// All ranks call it: each gives its patterns to all others by a call through slots, and others by
/// calls by words. `unsupported` if the data of either is wrong or late. A flag is such a word,
/// too, so if one of them cannot be relied on, neither can. A failure on one rank ends the others'
/// kernels.
KernelTrial try_kernels(GroupCalls& calls, const StreamGroupOptions& options,
                        const SharedGroup& shared, Exchange::TimePoint deadline);

}  // namespace ccoll::device
