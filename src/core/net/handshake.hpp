// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The first bytes of every connection, store, control and link alike: protocol version, purpose,
/// and mutual proof (HMAC-SHA256 over both sides' nonces) that both know the job's token. Nothing a
/// stranger sends gets further than this.

#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/local/stream_protocol.hpp>
#include <chrono>
#include <cstdint>
#include <string>

#include "core/result.hpp"

namespace ccoll::net {

inline constexpr std::uint16_t kProtocolVersion = 2;

enum class Purpose : std::uint8_t { store = 1, control = 2, link = 3, memory = 4 };

// Over TCP or a Unix socket: `Socket` is that of asio::ip::tcp or asio::local::stream_protocol.

/// The client's side. An empty token proves only that both have none.
template <typename Socket>
asio::awaitable<Status> greet(Socket& socket, std::string token, Purpose purpose,
                              std::chrono::milliseconds timeout);

/// The server's side: what the client came for.
template <typename Socket>
asio::awaitable<Result<Purpose>> answer(Socket& socket, std::string token,
                                        std::chrono::milliseconds timeout);

}  // namespace ccoll::net
