// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Messages between two ranks: what a receive tells, and the parts of a batch. The calls are
/// Communicator's.

#include <cstddef>
#include <ranges>

#include "ccoll/buffer.hpp"
#include "ccoll/types.hpp"

namespace ccoll {

/// As the `from` of a receive or probe: whoever sends first.
inline constexpr int kAnyRank = -1;
/// As the `tag` of a receive or probe: whatever the sender gave, from 0 up.
inline constexpr int kAnyTag = -1;

/// What came.
struct Received {
  int from = 0;
  int tag = 0;
  std::size_t count = 0;  ///< elements: of the receive's type; of a probe, of the sender's
  std::size_t bytes = 0;
  friend bool operator==(const Received&, const Received&) = default;
};

/// One send or receive of a batch. Its buffer is the caller's and belongs to the batch until that
/// is done.
struct MessageRequest {
  /// Which of the two it is.
  enum class What : std::uint8_t { send, recv };

  What what = What::send;
  const void* input = nullptr;  ///< of a send
  void* output = nullptr;       ///< of a recv
  std::size_t count = 0;
  DataType type = DataType::uint8;
  int peer = 0;  ///< the receiver; or the sender, or kAnyRank
  int tag = 0;   ///< of a recv also kAnyTag

  static MessageRequest send(const void* data, std::size_t count, DataType type, int to,
                             int tag = 0) {
    return {What::send, data, nullptr, count, type, to, tag};
  }
  static MessageRequest recv(void* data, std::size_t count, DataType type, int from, int tag = 0) {
    return {What::recv, nullptr, data, count, type, from, tag};
  }
  template <InputBuffer B>
  static MessageRequest send(B&& buffer, int to, int tag = 0) {
    return send(std::ranges::data(buffer), std::ranges::size(buffer), element_type_of<B>, to, tag);
  }
  template <OutputBuffer B>
  static MessageRequest recv(B&& buffer, int from, int tag = 0) {
    return recv(std::ranges::data(buffer), std::ranges::size(buffer), element_type_of<B>, from,
                tag);
  }
};

}  // namespace ccoll
