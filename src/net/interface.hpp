// SPDX-License-Identifier: Apache-2.0
#pragma once

/// This host's network interfaces, as far as other hosts can reach them by an address.

#include <asio/ip/address.hpp>
#include <string>
#include <vector>

namespace ccoll::net {

struct Interface {
  std::string name;
  asio::ip::address address;
};

/// One for each address of an interface that is up, in the system's order; no link-local ones.
std::vector<Interface> list_interfaces();

/// "eth0": whose address it is; empty where nobody's is.
std::string interface_with(const asio::ip::address& address);

}  // namespace ccoll::net
