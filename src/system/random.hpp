// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Random bytes for secrets and identities, from the kernel. A library's own generator would have
/// to be made first, which takes a process longer than all else of its first handshake.

#include <cstddef>
#include <span>

#include "core/result.hpp"

namespace ccoll {

/// Fills up to 256 bytes, which the kernel gives at once. Fails if it gives none.
Status fill_random(std::span<std::byte> bytes);

}  // namespace ccoll
