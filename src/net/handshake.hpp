// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The first bytes of every connection (store, control or link): protocol version, purpose, and
/// mutual proof (HMAC-SHA256 over both sides' nonces) that both know the job's token. A stranger's
/// bytes get no further than this. With TLS, connections of a store and of control begin with its
/// handshake; all this then goes on inside, and the proofs are bound to it.

#include <asio/awaitable.hpp>
#include <asio/local/stream_protocol.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "core/result.hpp"
#include "net/wire/stream.hpp"

namespace ccoll::net {

inline constexpr std::uint16_t kProtocolVersion = 8;

enum class Purpose : std::uint8_t { store = 1, control = 2, link = 3, memory = 4, verbs = 5 };

// `Socket` is a Stream, or the socket of asio::local::stream_protocol, which never has TLS.

/// The client's side. An empty token proves only that neither side has one. `timeout` covers all of
/// it, TLS included.
template <typename Socket>
asio::awaitable<Status> greet(Socket& socket, Credentials credentials, Purpose purpose,
                              std::chrono::milliseconds timeout);

/// The server's side; returns the purpose that the client asks for. `proven` is called when the
/// client has proven that it knows the token, before it hears that it is in.
template <typename Socket>
asio::awaitable<Result<Purpose>> answer(
    Socket& socket, Credentials credentials, std::chrono::milliseconds timeout,
    std::function<void()> proven = [] {});

/// Does what a process's first answer() would do while its client waits: OpenSSL takes some 6
/// million instructions to make itself ready. Any thread may call it.
void prepare_to_answer();

}  // namespace ccoll::net
