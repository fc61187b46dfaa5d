// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Clients that connect to a listener but do not belong to the job. Blocking sockets, one call
/// each.

#include <arpa/inet.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <string_view>

#include "net/listener.hpp"
#include "system/file_descriptor.hpp"

namespace ccoll::testing {

class Stranger {
 public:
  /// Connects; `connected()` says whether the kernel accepted.
  explicit Stranger(const asio::ip::tcp::endpoint& to)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    connected_ = ::connect(socket_.number(), to.data(), static_cast<socklen_t>(to.size())) == 0;
  }
  bool connected() const { return connected_; }
  void say(std::string_view bytes) {
    (void)!::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  /// Shuts down sending but continues to receive.
  void end() { ::shutdown(socket_.number(), SHUT_WR); }
  /// All bytes received until the other end closes or sends nothing for `patience_ms`.
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
  /// Whether the other end closes within `patience_ms`.
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

/// Sends a valid hello for `token` to the listener at `to`.
inline Status greet(const asio::ip::tcp::endpoint& to, const std::string& token) {
  std::promise<Status> outcome;
  const auto service = net::Service::shared();
  const auto task = [](std::shared_ptr<net::Service> on, std::string address, std::string proof,
                       std::promise<Status>& into) -> asio::awaitable<void> {
    auto socket =
        co_await net::connect_once(on, address, proof, net::Purpose::link, std::chrono::seconds(5));
    into.set_value(socket ? Status{} : Status(tl::unexpected(socket.error())));
  };
  asio::co_spawn(service->context(), task(service, net::to_string(to), token, outcome),
                 asio::detached);
  return outcome.get_future().get();
}

/// Sends a valid hello through a proxy that records the client's bytes; empty if it was refused.
inline std::string recorded_hello(const asio::ip::tcp::endpoint& to, const std::string& token) {
  asio::io_context context;
  asio::ip::tcp::acceptor acceptor(context,
                                   asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  auto greeted = std::async(std::launch::async,
                            [&, at = acceptor.local_endpoint()] { return greet(at, token); });
  asio::ip::tcp::socket client = acceptor.accept();
  asio::ip::tcp::socket server(context);
  server.connect(to);
  std::string said;
  const auto pass = [](asio::ip::tcp::socket& from, asio::ip::tcp::socket& on_to,
                       std::size_t bytes) {
    std::string text(bytes, '\0');
    asio::read(from, asio::buffer(text));
    asio::write(on_to, asio::buffer(text));
    return text;
  };
  said += pass(client, server, 43);  // hello
  pass(server, client, 43);          // challenge
  said += pass(client, server, 32);  // proof
  pass(server, client, 33);          // verdict and proof
  return greeted.get() ? said : std::string();
}

inline std::string random_bytes(std::minstd_rand& random, std::size_t most) {
  std::string bytes(std::uniform_int_distribution<std::size_t>(0, most)(random), '\0');
  for (char& byte : bytes) byte = static_cast<char>(random() >> 8);
  return bytes;
}

/// Raises the limit of descriptors to the process's maximum.
inline std::size_t raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

}  // namespace ccoll::testing
