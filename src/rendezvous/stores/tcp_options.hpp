// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Socket options for connections between a store and its client, beyond those of every connection.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <asio/ip/tcp.hpp>

namespace ccoll::rendezvous {

/// Notices within about a minute that the other host is gone, even if neither side sends: a client
/// may wait for hours. Failures are ignored, because the connection works without it.
inline void keep_alive(asio::ip::tcp::socket& socket) {
  const auto set = [&](int level, int name, int value) {
    ::setsockopt(socket.native_handle(), level, name, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

}  // namespace ccoll::rendezvous
