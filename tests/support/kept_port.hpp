// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Reserves a port for a server that starts later.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <stdexcept>
#include <string>

#include "system/file_descriptor.hpp"

namespace ccoll::testing {

/// A loopback port without a listener, which the system assigns to nobody else while this lives. A
/// server that binds it by number still gets it, as ours do (SO_REUSEADDR).
class KeptPort {
 public:
  KeptPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof at;
    auto* const address = reinterpret_cast<sockaddr*>(&at);
    const int number = socket_.number();
    if (::setsockopt(number, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        ::bind(number, address, bytes) != 0 || ::getsockname(number, address, &bytes) != 0)
      throw std::runtime_error("no port");
    address_ = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  }
  const std::string& address() const { return address_; }

 private:
  FileDescriptor socket_;
  std::string address_;
};

}  // namespace ccoll::testing
