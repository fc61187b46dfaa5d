// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Framed messages over a greeted connection: a length (u32, little-endian) and as many bytes. The
/// meaning of the bytes is up to the senders (bytes.hpp reads and writes fields).

#include <asio/awaitable.hpp>
#include <cstddef>
#include <string>
#include <string_view>

#include "core/result.hpp"
#include "net/wire/stream.hpp"

namespace ccoll::net {

/// Reads the next frame's body. Fails with `peer_lost` if the connection ends; after a clean end
/// between two frames the message is kClosedByPeer. If the length exceeds `max_bytes`, it fails
/// with `corrupt` and reads no body. Memory grows with the bytes that arrive, not with a stranger's
/// length. One reader per stream at a time.
asio::awaitable<Result<std::string>> read_frame(Stream& stream, std::size_t max_bytes);

inline constexpr std::string_view kClosedByPeer = "the peer closed the connection";

/// `body` with its length before it.
std::string to_frame(std::string_view body);

}  // namespace ccoll::net
