// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Starts programs that are made for NCCL such that they call ccoll's libnccl.so.2.

#include <string>
#include <vector>

#include "core/result.hpp"

namespace ccoll {

/// The library that belongs to this command: installed with it, or built beside it. Fails if there
/// is none, or if its path cannot be preloaded.
Result<std::string> nccl_library();

/// The value of LD_PRELOAD with that library before the present ones.
Result<std::string> nccl_preload();

/// Becomes the program; it and its children call ccoll's library. Returns only if it cannot be
/// started.
Status become_nccl_program(const std::vector<std::string>& command);

}  // namespace ccoll
