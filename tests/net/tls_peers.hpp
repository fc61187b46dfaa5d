// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A listener that echoes, and clients that call it, with and without TLS.

#include <sys/stat.h>
#include <unistd.h>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <atomic>
#include <catch2/catch.hpp>
#include <future>

#include "net/listener.hpp"
#include "net/wire/frame.hpp"
#include "net/wire/outbox.hpp"
#include "net/wire/tls.hpp"

namespace ccoll::testing {

using namespace std::chrono_literals;

inline constexpr const char* kToken = "the token";
inline const TlsOptions kPsk{"psk", {}, {}, {}, {}};
inline const TlsOptions kOff{"off", {}, {}, {}, {}};

inline net::Credentials credentials(const TlsOptions& tls, const std::string& token = kToken) {
  return value_or_throw(net::Credentials::make(token, tls));
}

template <typename T>
std::string message_of(const Result<T>& result) {
  return result ? "good" : result.error().message;
}

/// A listener that sends each frame back.
struct Echo {
  explicit Echo(net::Credentials given) {
    listener = net::Listener::open(service, "", std::move(given),
                                   [this](net::Purpose, net::Stream stream) {
                                     came++;
                                     asio::co_spawn(service->context(), echo(std::move(stream)),
                                                    asio::detached);
                                   })
                   .value();
  }
  static asio::awaitable<void> echo(net::Stream given) {
    net::Stream stream = std::move(given);
    for (;;) {
      auto frame = co_await net::read_frame(stream, 16 << 20);
      if (!frame) break;
      std::string back = net::to_frame(*frame);
      std::error_code error;
      co_await stream.write(std::move(back), error);
    }
    stream.finish();
  }
  std::string address() const { return net::to_string(listener->endpoint()); }

  std::shared_ptr<net::Service> service = net::Service::shared();
  std::atomic<int> came{0};
  std::unique_ptr<net::Listener> listener;
};

inline asio::awaitable<void> call(std::shared_ptr<net::Service> service, std::string address,
                                  net::Credentials given, net::Purpose purpose, std::string said,
                                  std::shared_ptr<std::promise<Result<std::string>>> outcome) {
  auto stream = co_await net::connect_once(service, address, std::move(given), purpose, 20s);
  if (!stream) {
    outcome->set_value(tl::unexpected(stream.error()));
    co_return;
  }
  std::string frame = net::to_frame(said);
  std::error_code error;
  co_await stream->write(std::move(frame), error);
  auto back = co_await net::read_frame(*stream, 16 << 20);
  if (back) {
    stream->finish();
    const auto end = co_await net::read_frame(*stream, 16);
    if (end || end.error().message != net::kClosedByPeer)
      back = fail(ErrorKind::internal, "no clean end");
  }
  outcome->set_value(std::move(back));
}

/// The echo of `said`.
inline Result<std::string> said_back(const std::string& address, net::Credentials given,
                                     net::Purpose purpose = net::Purpose::store,
                                     std::string said = "hello") {
  const auto service = net::Service::shared();
  const auto outcome = std::make_shared<std::promise<Result<std::string>>>();
  auto future = outcome->get_future();
  asio::co_spawn(service->context(),
                 call(service, address, std::move(given), purpose, std::move(said), outcome),
                 asio::detached);
  return future.get();
}

}  // namespace ccoll::testing
