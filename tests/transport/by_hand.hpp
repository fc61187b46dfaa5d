// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Hand-made traffic on shared memory's Unix sockets, as strangers and broken peers may send it.

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/use_future.hpp>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "net/handshake.hpp"
#include "system/descriptors.hpp"
#include "transport/shm/door.hpp"

namespace ccoll::testing {

/// One end of a connection, driven by hand.
class Speaker {
 public:
  using Local = asio::local::stream_protocol;

  Speaker() : socket_(context_) {}

  asio::io_context& context() { return context_; }
  Local::socket& socket() { return socket_; }
  std::error_code connect(const std::string& door) {
    std::error_code code;
    socket_.connect(Local::endpoint(door), code);
    return code;
  }
  Status greet(std::string token = "", net::Purpose purpose = net::Purpose::link) {
    return run(net::greet(socket_, std::move(token), purpose, kPatience));
  }
  Result<net::Purpose> answer() { return run(net::answer(socket_, "", kPatience)); }
  void send(std::string_view bytes, std::span<const int> descriptors = {}) {
    (void)shm::send_with_descriptors(socket_.native_handle(), bytes, descriptors);
  }
  /// Waits up to 5 s for bytes; the failure if the other end closes.
  Result<shm::WithDescriptors> receive() {
    pollfd wait{socket_.native_handle(), POLLIN, 0};
    poll(&wait, 1, 5000);
    return shm::receive_with_descriptors(socket_.native_handle(), 1000);
  }
  bool is_closed_by_the_other() {
    const auto came = receive();
    return !came && came.error().kind == ErrorKind::peer_lost;
  }
  void close() { socket_.close(); }

 private:
  static constexpr std::chrono::seconds kPatience{5};

  template <typename T>
  T run(asio::awaitable<T> task) {
    auto result = asio::co_spawn(context_, std::move(task), asio::use_future);
    context_.restart();
    context_.run();
    return result.get();
  }

  asio::io_context context_;
  Local::socket socket_;
};

/// Takes the place of rank 1's door and handles each connection by a script.
class FalseDoor {
 public:
  using Script = std::function<void(Speaker&)>;

  /// Without a script it does not even listen.
  void stand_at(const std::string& name, Script script) {
    listener_ = FileDescriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy(name, address.sun_path);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    CCOLL_CHECK(bind(listener_.number(), reinterpret_cast<sockaddr*>(&address), size) == 0, "{}",
                errno);
    if (!script) return;
    CCOLL_CHECK(listen(listener_.number(), 100) == 0, "{}", errno);
    thread_ = std::thread([this, script] {
      while (!ended_) {
        pollfd wait{listener_.number(), POLLIN, 0};
        if (poll(&wait, 1, 10) != 1) continue;
        const int accepted = accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC);
        if (accepted < 0) continue;
        Speaker speaker;
        speaker.socket().assign(Speaker::Local(), accepted);
        script(speaker);
      }
    });
  }
  ~FalseDoor() {
    ended_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  FileDescriptor listener_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace ccoll::testing
