// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Copies that leave the caches to others.

#include <cstddef>

namespace ccoll {

/// Copies by stores that bypass the caches, where the CPU has such: one that is not read again
/// soon, of more than the caches hold, is then not first read from memory to be overwritten.
/// Ordered before what the thread stores next, like any other. Any alignment; no overlap.
void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace ccoll
