// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Copies that leave the caches to others.

#include <cstddef>

namespace ccoll {

/// Copies by stores that bypass the caches, if the CPU has such. So a target that exceeds the
/// caches and is not read again soon is not first read from memory to be overwritten. The copy is
/// ordered before what the thread stores next, like any other. Any alignment; no overlap.
void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace ccoll
