// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Further processes of a phase.

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/file_descriptor.hpp"
#include "phases.hpp"

namespace ccoll::gpu_check {

/// This program again as `kind` (--peer-of), with nothing of CUDA in it yet, and with the
/// descriptors that `inherited` holds. It dies with the thread that starts it.
pid_t start_peer(const std::string& kind, const std::string& handle,
                 const std::vector<FileDescriptor>& inherited = {});

/// Waits for all. What one of them finds wrong, it has said.
void await_peers(const std::vector<pid_t>& children, Findings& findings);

}  // namespace ccoll::gpu_check
