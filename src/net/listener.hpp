// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A listening socket. Every connection passes the handshake before the handler gets it.

#include <asio/ip/tcp.hpp>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "core/result.hpp"
#include "net/handshake.hpp"
#include "net/service.hpp"

namespace ccoll::net {

class Listener {
 public:
  /// Receives each connection whose hello was good. Runs on the service thread; must not block.
  using Handler = std::function<void(Purpose, Stream)>;

  /// Binds to `address` ("host:port"; "" is loopback with a free port, ":port" loopback too; "[::]"
  /// takes IPv4 as well). If CCOLL_PORT_RANGE is set, a free port comes from it. An address that is
  /// not loopback needs a token. With TLS, connections for a store or control have it, others do
  /// not.
  static Result<std::unique_ptr<Listener>> open(std::shared_ptr<Service> service,
                                                const std::string& address, Credentials credentials,
                                                Handler handler);
  /// Stops accepting. On return the port is free, and no handler runs or will run; only a handler
  /// that itself destroys the listener goes on. If the service thread is held, this waits for
  /// kHeldLimit at most and the port becomes free later.
  virtual ~Listener() = default;
  virtual asio::ip::tcp::endpoint endpoint() const = 0;
  /// Connections dropped because their bytes were not ours.
  virtual std::uint64_t rejected() const = 0;
};

/// "host:port" with an IPv6 host in brackets.
std::string to_string(const asio::ip::tcp::endpoint& endpoint);

/// Connects and greets. It retries with back-off until `timeout` while nobody listens there. The
/// failure says what was tried: `no store at 10.0.0.1:29500 after 60 s (connection refused, 41
/// tries): is rank 0 running?` with `who` = "store" and `hint` = "is rank 0 running?". A listener
/// that is no ccoll, or has another version or token, is not asked twice. Run it on the service's
/// context. `retries`, unless null, counts the tries after the first. It does not retry after
/// `stop` is requested. `failed`, unless empty, gets the reason of each try that will be repeated.
/// It is called on the service thread and must not block.
asio::awaitable<Result<Stream>> connect(
    std::shared_ptr<Service> service, std::string address, Credentials credentials, Purpose purpose,
    std::chrono::milliseconds timeout, std::string who, std::string hint,
    std::shared_ptr<std::atomic<std::uint64_t>> retries = nullptr, std::stop_token stop = {},
    std::function<void(const std::string&)> failed = {});

/// Tries once, for callers that retry themselves. `timeout` limits reaching `address` and, once
/// accepted, again the hello. Fails with peer_lost if nobody listens there, with mismatch if
/// another program does, and with timed_out or exhausted if a retry may help. Run it on the
/// service's context.
asio::awaitable<Result<Stream>> connect_once(std::shared_ptr<Service> service, std::string address,
                                             Credentials credentials, Purpose purpose,
                                             std::chrono::milliseconds timeout);

/// The address that a listener of this rank should bind to ("ip:0"). `interface`
/// (CCOLL_SOCKET_IFNAME) names or prefixes an interface; "^eth" excludes, "=eth0" is exact. If it
/// is empty, the route to `towards` ("host:port") decides: loopback for loopback, and also if both
/// are empty. A `family`, "ipv4" or "ipv6", restricts the choice. It may block: it asks the name
/// service if `towards` is a name.
Result<std::string> local_address(const std::string& interface, const std::string& towards,
                                  std::string_view family = {});

}  // namespace ccoll::net
