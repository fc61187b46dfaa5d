// SPDX-License-Identifier: Apache-2.0
#pragma once

/// This host's network interfaces with addresses that other hosts can reach.

#include <asio/ip/address.hpp>
#include <string>
#include <vector>

namespace ccoll::net {

struct Interface {
  std::string name;
  asio::ip::address address;
};

/// One entry per address of an interface that is up, in the system's order; none is link-local.
std::vector<Interface> list_interfaces();

/// The name of the interface with that address, as "eth0"; empty if none has it.
std::string interface_with(const asio::ip::address& address);

}  // namespace ccoll::net
