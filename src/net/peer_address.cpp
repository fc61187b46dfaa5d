// SPDX-License-Identifier: Apache-2.0
#include "net/peer_address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

namespace ccoll {

std::string ip_text(const PeerAddress& address) {
  static constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  char text[INET6_ADDRSTRLEN] = {};
  if (std::equal(std::begin(kMapped), std::end(kMapped), address.ip.begin()))
    inet_ntop(AF_INET, address.ip.data() + 12, text, sizeof text);
  else
    inet_ntop(AF_INET6, address.ip.data(), text, sizeof text);
  return text;
}

std::string endpoint_text(const PeerAddress& address) {
  const std::string ip = ip_text(address);
  const bool v6 = ip.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", ip, address.port) : fmt::format("{}:{}", ip, address.port);
}

}  // namespace ccoll
