// SPDX-License-Identifier: Apache-2.0
#pragma once

/// "host:port" as text, and as endpoints for sockets.

#include <asio/ip/tcp.hpp>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>

#include "core/result.hpp"
#include "net/inherited.hpp"
#include "system/file_descriptor.hpp"

namespace ccoll::net {

struct HostPort {
  std::string host;  ///< a name or an IP address, without brackets; may be empty
  std::uint16_t port = 0;
};

/// "host:port", "[v6]:port" or ":port".
Result<HostPort> parse_address(const std::string& address);

/// The endpoint, if `address` has an IP number and needs no name service.
std::optional<asio::ip::tcp::endpoint> numeric_endpoint(const HostPort& address);

/// Fails if an endpoint outside this host has no token, and hints where to get one. `doing` is
/// "listening at", "connecting to".
Status check_token(const asio::ip::tcp::endpoint& endpoint, const std::string& token,
                   std::string_view doing);

/// Makes a socket or acceptor that Asio has just opened or accepted our own. This process's
/// children do not inherit it, and its number is not a standard stream's.
template <typename Socket>
void make_own(Socket& socket, std::error_code& error) {
  if (!is_standard_stream(socket.native_handle()))
    return keep_from_children(socket.native_handle());
  const auto protocol = socket.local_endpoint(error).protocol();
  if (error) return;
  FileDescriptor own(socket.release());
  if (!own.open()) error.assign(errno, std::system_category());
  if (!error) socket.assign(protocol, own.number(), error);
  if (!error) keep_from_children(own.release());
}

/// Small messages are not delayed. A failure is ignored; the next operation reports a dead socket.
void set_options(asio::ip::tcp::socket& socket);

}  // namespace ccoll::net
