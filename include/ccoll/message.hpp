// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Messages between two ranks: the result of a receive, and the parts of a batch. The calls are
/// Communicator's, which says when a send returns.
///
/// Messages come into their receiver's queue while it is in a call of this communicator, of
/// whatever kind, or has an asynchronous one under way. Otherwise only the messages that fit on
/// the way there go without waiting for the receiver's next call: 16 in shared memory, 8 between
/// threads of a process, the sockets' buffers over tcp.
///
/// Once a send is over, its data are delivered even if the rank leaves. A send that is not over
/// when its communicator is destroyed is given up: a send that waits for its receive makes that
/// fail; an eager send_async that nobody waited for may arrive or not.

#include <cstddef>
#include <cstdint>

#include "ccoll/blocks.hpp"
#include "ccoll/types.hpp"

namespace ccoll {

/// As the `from` of a receive or probe: any rank.
inline constexpr int kAnyRank = -1;
/// As the `tag` of a receive or probe: any tag, from 0 up.
inline constexpr int kAnyTag = -1;

/// A received message.
struct Received {
  int from = 0;
  int tag = 0;
  std::size_t count = 0;  ///< elements, in the receive's type; for a probe, in the sender's
  std::size_t bytes = 0;
  friend bool operator==(const Received&, const Received&) = default;
};

/// One send or receive of a batch. Its block is the caller's and belongs to the batch until that is
/// over.
struct MessageRequest {
  /// Which of the two it is.
  enum class What : std::uint8_t { send, recv };

  What what = What::send;
  Block block = {};  ///< read by a send, written by a receive
  int peer = 0;      ///< a send's receiver; a receive's sender, or kAnyRank
  int tag = 0;       ///< 0 or more; a receive also takes kAnyTag

  static MessageRequest send(const ConstBlock& block, int to, int tag = 0) {
    return {
        What::send,
        {const_cast<void*>(block.data), block.count, block.type, block.row_length, block.stride},
        to,
        tag};
  }
  static MessageRequest recv(const Block& block, int from, int tag = 0) {
    return {What::recv, block, from, tag};
  }
};

}  // namespace ccoll
