// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/factory.hpp"

#include <array>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <map>
#include <mutex>

#include "core/net/bytes.hpp"
#include "core/net/handshake.hpp"
#include "core/net/listener.hpp"
#include "transport/tcp/link.hpp"

namespace ccoll::tcp {
namespace {

using asio::ip::tcp;

/// The bytes that follow the handshake of a link: which link it is.
constexpr std::size_t kHelloBytes = 8 + 4 + 4 + 2;

/// The peer's listener has stood since start-up: if it cannot be reached soon it is gone.
constexpr std::chrono::seconds kConnectTimeout{10};

std::string encode(const LinkId& id) {
  return net::Writer().number(id.communicator).number(id.from).number(id.to).number(id.lane).take();
}

LinkId decode(std::string_view bytes) {
  net::Reader reader(bytes);
  LinkId id;
  id.communicator = reader.number<std::uint64_t>();
  id.from = reader.number<std::uint32_t>();
  id.to = reader.number<std::uint32_t>();
  id.lane = reader.number<std::uint16_t>();
  return id;
}

std::string address_of(const PeerAddress& peer) {
  const auto ip = ip_text(peer);
  return ip.find(':') == std::string::npos ? fmt::format("{}:{}", ip, peer.port)
                                           : fmt::format("[{}]:{}", ip, peer.port);
}

/// Connects, says which link it is, and hands the stream over. Outlives the link if need be.
asio::awaitable<void> connect_link(TransportContext context, LinkId id,
                                   std::shared_ptr<Connection> connection,
                                   std::shared_ptr<Waiter> waiter) {
  auto socket = co_await net::connect(
      context.service, address_of(context.table[id.to]), context.token, net::Purpose::link,
      std::min<std::chrono::milliseconds>(context.connect_timeout, kConnectTimeout),
      fmt::format("rank {}", id.to), "has it died?");
  if (!socket) {
    auto failure = socket.error();
    if (failure.kind == ErrorKind::timed_out) failure.kind = ErrorKind::peer_lost;
    failure.culprit = id.to;
    connection->deliver(std::move(failure));
  } else {
    const auto hello = encode(id);
    std::error_code code;
    co_await asio::async_write(*socket, asio::buffer(hello),
                               asio::redirect_error(asio::use_awaitable, code));
    if (code)
      connection->deliver(
          {ErrorKind::peer_lost,
           fmt::format("the connection to rank {} broke: {}", id.to, code.message()), id.to});
    else
      connection->deliver(socket->release());
  }
  waiter->ring();
}

class TcpTransport final : public Transport, public std::enable_shared_from_this<TcpTransport> {
 public:
  explicit TcpTransport(const TransportContext& context) : context_(context) {}

  Result<std::unique_ptr<SendLink>> open_send(const LinkId& id,
                                              std::shared_ptr<Waiter> waiter) override {
    auto connection = std::make_shared<Connection>();
    asio::co_spawn(context_.service->context(), connect_link(context_, id, connection, waiter),
                   asio::detached);
    return std::make_unique<TcpSendLink>(id.to, std::move(connection), std::move(waiter));
  }

  Result<std::unique_ptr<ReceiveLink>> open_receive(const LinkId& id,
                                                    std::shared_ptr<Waiter> waiter) override {
    std::lock_guard lock(mutex_);
    Incoming incoming = std::move(incoming_[id]);
    if (incoming.connection) {
      incoming_.erase(id);
    } else {
      incoming.connection = std::make_shared<Connection>();
      incoming_[id] = {incoming.connection, waiter};
    }
    return std::make_unique<TcpReceiveLink>(id.from, std::move(incoming.connection),
                                            std::move(waiter));
  }

  void accept(tcp::socket socket) override {
    asio::co_spawn(context_.service->context(), accept_link(shared_from_this(), std::move(socket)),
                   asio::detached);
  }

 private:
  /// A link of which only one end is here yet.
  struct Incoming {
    std::shared_ptr<Connection> connection;
    std::shared_ptr<Waiter> waiter;  ///< null while the link is not awaited
  };

  static asio::awaitable<void> accept_link(std::shared_ptr<TcpTransport> self, tcp::socket socket) {
    std::array<char, kHelloBytes> hello;
    std::error_code code;
    co_await asio::async_read(socket, asio::buffer(hello),
                              asio::redirect_error(asio::use_awaitable, code));
    const auto id = decode({hello.data(), hello.size()});
    // A peer that has proven the token and yet talks nonsense: drop it.
    if (code || id.to != self->context_.rank || id.from >= self->context_.table.size()) co_return;
    self->arrived(id, socket.release());
  }

  void arrived(const LinkId& id, int fd) {
    std::shared_ptr<Waiter> waiter;
    {
      std::lock_guard lock(mutex_);
      auto& incoming = incoming_[id];
      if (!incoming.connection) incoming.connection = std::make_shared<Connection>();
      incoming.connection->deliver(fd);
      waiter = incoming.waiter;
      if (waiter) incoming_.erase(id);
    }
    if (waiter) waiter->ring();
  }

  const TransportContext context_;
  std::mutex mutex_;
  std::map<LinkId, Incoming> incoming_;  // guarded by mutex_
};

}  // namespace

bool reaches(const PeerAddress&, const PeerAddress&) { return true; }

std::shared_ptr<Transport> make(const TransportContext& context) {
  return std::make_shared<TcpTransport>(context);
}

}  // namespace ccoll::tcp
