// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What a caller's buffers on a device may be.

namespace ccoll::testing {

enum class MemoryKind {
  ordinary,    ///< of cudaMalloc
  allocated,   ///< of ccoll::allocate
  registered,  ///< of cudaMalloc, and registered
};
inline constexpr MemoryKind kMemoryKinds[] = {MemoryKind::ordinary, MemoryKind::allocated,
                                              MemoryKind::registered};
/// Of which others may be lent.
inline constexpr MemoryKind kLentKinds[] = {MemoryKind::allocated, MemoryKind::registered};

}  // namespace ccoll::testing
