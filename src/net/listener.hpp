// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A listening socket whose every connection goes through the handshake before anyone sees it.

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
  /// takes IPv4 as well). A free port is one of CCOLL_PORT_RANGE where that is set. An address that
  /// is not loopback needs a token. With TLS, a connection for a store or control has it, others
  /// have not.
  static Result<std::unique_ptr<Listener>> open(std::shared_ptr<Service> service,
                                                const std::string& address, Credentials credentials,
                                                Handler handler);
  /// Stops accepting: the port is free, and no handler runs or will run, once it returns (only a
  /// handler that itself destroys the listener goes on). While the service thread is held the port
  /// becomes free later: it waits for kHeldLimit at most.
  virtual ~Listener() = default;
  virtual asio::ip::tcp::endpoint endpoint() const = 0;
  /// Connections dropped because their bytes were not ours.
  virtual std::uint64_t rejected() const = 0;
};

/// "host:port" with an IPv6 host in brackets.
std::string to_string(const asio::ip::tcp::endpoint& endpoint);

/// Connects and greets, retrying with back-off until `timeout` while nobody listens there. The
/// failure says what was tried: `no store at 10.0.0.1:29500 after 60 s (connection refused, 41
/// tries): is rank 0 running?` with `who` = "store" and `hint` = "is rank 0 running?". One who
/// listens but is no ccoll, or has another version or token, is not asked twice. Run it on the
/// service's context. `retries`, unless it is null, counts the tries after the first. Once `stop`
/// is requested it is not tried again.
asio::awaitable<Result<Stream>> connect(
    std::shared_ptr<Service> service, std::string address, Credentials credentials, Purpose purpose,
    std::chrono::milliseconds timeout, std::string who, std::string hint,
    std::shared_ptr<std::atomic<std::uint64_t>> retries = nullptr, std::stop_token stop = {});

/// One try, for those who have their own reasons to come again. `timeout` is for reaching `address`
/// and, once accepted, again for the hello. Fails with peer_lost when nobody listens there, with
/// mismatch when someone else does, and with timed_out or exhausted when it may help to come again.
/// Run it on the service's context.
asio::awaitable<Result<Stream>> connect_once(std::shared_ptr<Service> service, std::string address,
                                             Credentials credentials, Purpose purpose,
                                             std::chrono::milliseconds timeout);

/// The address that a listener of this rank should bind to ("ip:0"): the interface named or
/// prefixed by `interface` (CCOLL_SOCKET_IFNAME; "^eth" excludes, "=eth0" exact) or, when that is
/// empty, the one that the route to `towards` ("host:port") leaves by; loopback for loopback, and
/// when both are empty. Of that `family`, "ipv4" or "ipv6", unless it is empty. Asks the name
/// service where `towards` is a name: it may block.
Result<std::string> local_address(const std::string& interface, const std::string& towards,
                                  std::string_view family = {});

}  // namespace ccoll::net
