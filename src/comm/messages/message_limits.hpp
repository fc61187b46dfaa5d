// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Sizes of the protocol that messages.hpp describes: what a communicator chooses, and what is
/// fixed.

#include <cstddef>
#include <cstdint>

#include "transport/link.hpp"

namespace ccoll {

/// Most memory of the receiver that one rank's messages without a receive may take.
inline constexpr std::size_t kUnexpectedBytes = 1 << 20;

/// Cost of a message without a receive, beside its data.
inline constexpr std::size_t kEnvelopeBytes = 128;

/// Most data of an eager slice, which is one slice on any link: a message of so many bytes never
/// needs a payload, for which its sender would wait.
inline constexpr std::size_t kMaxEagerBytes = kCommonSliceBytes;

/// A slice of rows: short, so that the receiver scatters one while the sender gathers the next.
inline constexpr std::size_t kSliceOfRowsBytes = 32 << 10;

/// Most slices of one link in one round: the owner has others to look after.
inline constexpr int kSlicesAtOnce = 16;

/// The links of messages are their own, far from any program's lanes.
inline constexpr std::uint16_t kHeaderLane = 0x8000;
inline constexpr std::uint16_t kBulkLane = 0x8001;

struct MessageLimits {
  std::size_t eager_bytes = 64 << 10;
  bool strict = false;  ///< a send waits for its receive, whatever its size
  /// Messages larger than eager_bytes carry no data in the eager slice: it may have to be placed
  /// in device memory.
  bool all_in_payload = false;
};

}  // namespace ccoll
