// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The kinds of a caller's buffers on a device.

namespace ccoll::testing {

enum class MemoryKind {
  ordinary,    ///< from cudaMalloc
  allocated,   ///< from ccoll::allocate
  registered,  ///< from cudaMalloc, and registered
};
inline constexpr MemoryKind kMemoryKinds[] = {MemoryKind::ordinary, MemoryKind::allocated,
                                              MemoryKind::registered};
/// The kinds that can be lent to other ranks.
inline constexpr MemoryKind kLentKinds[] = {MemoryKind::allocated, MemoryKind::registered};

}  // namespace ccoll::testing
