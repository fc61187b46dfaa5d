// SPDX-License-Identifier: Apache-2.0
#include "net/address.hpp"

#include <asio/ip/address.hpp>
#include <charconv>

#include "net/listener.hpp"

namespace ccoll::net {

Result<HostPort> parse_address(const std::string& address) {
  const auto wrong = [&](const char* why) {
    return fail(ErrorKind::invalid_argument,
                "the address '{}' {}; expected host:port, or [v6]:port for IPv6", address, why);
  };
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) return wrong("has no port");
  HostPort result;
  result.host = address.substr(0, colon);
  if (result.host.starts_with('[')) {
    if (!result.host.ends_with(']')) return wrong("has a bracket that is not closed");
    result.host = result.host.substr(1, result.host.size() - 2);
  } else if (result.host.find(':') != std::string::npos) {
    return wrong("has several colons");
  }
  const char* const end = address.data() + address.size();
  const auto [stop, error] = std::from_chars(address.data() + colon + 1, end, result.port);
  if (error != std::errc() || stop != end) return wrong("has no port between 0 and 65535");
  return result;
}

std::optional<asio::ip::tcp::endpoint> numeric_endpoint(const HostPort& address) {
  std::error_code error;
  const auto ip = asio::ip::make_address(address.host, error);
  if (error) return std::nullopt;
  return asio::ip::tcp::endpoint(ip, address.port);
}

namespace {

bool is_loopback(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
  }
  return address.is_loopback();
}

}  // namespace

Status check_token(const asio::ip::tcp::endpoint& endpoint, const std::string& token,
                   std::string_view doing) {
  if (!token.empty() || is_loopback(endpoint.address())) return {};
  return fail(
      ErrorKind::invalid_argument,
      "{} {} needs a token, as it is not a loopback address: set CCOLL_TOKEN_FILE to a file "
      "with the same secret on all ranks, or start them with cc-run --token-file FILE",
      doing, to_string(endpoint));
}

void set_options(asio::ip::tcp::socket& socket) {
  std::error_code ignored;
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
}

std::string to_string(const asio::ip::tcp::endpoint& endpoint) {
  const auto ip = endpoint.address();
  if (ip.is_v6()) return fmt::format("[{}]:{}", ip.to_string(), endpoint.port());
  return fmt::format("{}:{}", ip.to_string(), endpoint.port());
}

}  // namespace ccoll::net
