// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Programs that are made for NCCL, started so that they call ccoll's libnccl.so.2.

#include <string>
#include <vector>

#include "core/result.hpp"

namespace ccoll {

/// The library that belongs to this command: installed with it, or built beside it. Fails where
/// there is none, or where its path cannot be preloaded.
Result<std::string> nccl_library();

/// LD_PRELOAD's value with that library before what is there already.
Result<std::string> nccl_preload();

/// Becomes the program, which calls ccoll's library, and so do those that it starts. Returns only
/// where it cannot be started.
Status become_nccl_program(const std::vector<std::string>& command);

}  // namespace ccoll
