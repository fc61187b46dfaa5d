// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Those who connect to a listener and have no business there. Blocking sockets, one call each.

#include <arpa/inet.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "core/file_descriptor.hpp"

namespace ccoll::testing {

class Stranger {
 public:
  /// Connects; `connected()` tells whether the kernel took it.
  explicit Stranger(const asio::ip::tcp::endpoint& to)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    connected_ = ::connect(socket_.number(), to.data(), static_cast<socklen_t>(to.size())) == 0;
  }
  bool connected() const { return connected_; }
  void say(std::string_view bytes) {
    (void)!::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  /// Says no more, and still listens.
  void end() { ::shutdown(socket_.number(), SHUT_WR); }
  /// All that is said until the other end closes, or says nothing for `patience_ms`.
  std::string hear(int patience_ms) {
    std::string heard;
    char bytes[512];
    pollfd wait{socket_.number(), POLLIN, 0};
    while (::poll(&wait, 1, patience_ms) == 1) {
      const auto count = ::recv(socket_.number(), bytes, sizeof bytes, 0);
      if (count <= 0) break;
      heard.append(bytes, static_cast<std::size_t>(count));
    }
    return heard;
  }
  /// Whether the other end has closed within `patience_ms`.
  bool is_closed(int patience_ms) {
    pollfd wait{socket_.number(), POLLIN, 0};
    char byte;
    return ::poll(&wait, 1, patience_ms) == 1 &&
           ::recv(socket_.number(), &byte, 1, MSG_DONTWAIT) <= 0;
  }

 private:
  FileDescriptor socket_;
  bool connected_ = false;
};

inline std::string random_bytes(std::minstd_rand& random, std::size_t most) {
  std::string bytes(std::uniform_int_distribution<std::size_t>(0, most)(random), '\0');
  for (char& byte : bytes) byte = static_cast<char>(random() >> 8);
  return bytes;
}

/// As many as this process may have.
inline std::size_t raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

}  // namespace ccoll::testing
