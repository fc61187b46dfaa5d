// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Framed messages over a greeted connection: a length (u32, little-endian) and as many bytes.
/// What the bytes mean is the business of those who send them (bytes.hpp reads and writes fields).

#include <asio/awaitable.hpp>
#include <cstddef>
#include <string>
#include <string_view>

#include "core/result.hpp"
#include "net/wire/stream.hpp"

namespace ccoll::net {

/// The next frame's body. Fails with `peer_lost` when the connection ends (the message of a clean
/// end between two frames is kClosedByPeer) and with `corrupt`, nothing of the body read, when the
/// length exceeds `max_bytes`. Memory is taken as bytes arrive, not on a stranger's word. One
/// reader per stream at a time.
asio::awaitable<Result<std::string>> read_frame(Stream& stream, std::size_t max_bytes);

inline constexpr std::string_view kClosedByPeer = "the peer closed the connection";

/// `body` with its length before it.
std::string to_frame(std::string_view body);

}  // namespace ccoll::net
