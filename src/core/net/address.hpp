// SPDX-License-Identifier: Apache-2.0
#pragma once

/// "host:port" as text, and as what sockets want.

#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "core/result.hpp"

namespace ccoll::net {

struct HostPort {
  std::string host;  ///< a name or an IP address, without brackets; may be empty
  std::uint16_t port = 0;
};

/// "host:port", "[v6]:port" or ":port".
Result<HostPort> parse_address(const std::string& address);

/// The endpoint, where `address` names it by number and no name service is needed.
std::optional<asio::ip::tcp::endpoint> numeric_endpoint(const HostPort& address);

/// Refuses to leave this host without a token, with a hint where one comes from. `doing` is
/// "listening at", "connecting to".
Status check_token(const asio::ip::tcp::endpoint& endpoint, const std::string& token,
                   std::string_view doing);

/// What every socket of ours has: no delay of small messages, and not inherited by programs that
/// this process starts. Failures are ignored; the next operation reports a dead socket.
void set_options(asio::ip::tcp::socket& socket);
void close_on_exec(int fd);

}  // namespace ccoll::net
