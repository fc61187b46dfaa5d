// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/factory.hpp"

#include <algorithm>
#include <array>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <deque>
#include <map>
#include <mutex>

#include "core/log.hpp"
#include "core/net/bytes.hpp"
#include "core/net/deadline.hpp"
#include "core/net/handshake.hpp"
#include "core/net/listener.hpp"
#include "transport/tcp/link.hpp"

namespace ccoll::tcp {
namespace {

using asio::ip::tcp;

/// The bytes that follow the handshake of a link: which link it is.
constexpr std::size_t kHelloBytes = 8 + 4 + 4 + 2;

/// Communicators that have ended, remembered for connections that are still on their way.
constexpr std::size_t kForgotten = 1024;

/// So many receiving ends may wait before one looks which of them are gone.
constexpr std::size_t kFewAwaited = 64;

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

using Context = std::shared_ptr<const TransportContext>;

/// Connects, says which link it is, and hands the stream over. Outlives the link if need be.
asio::awaitable<void> connect_link(Context context, LinkId id,
                                   std::shared_ptr<Connection> connection,
                                   std::shared_ptr<Waiter> waiter) {
  auto socket = co_await net::connect(
      context->service, address_of(context->table[id.to]), context->token, net::Purpose::link,
      std::min<std::chrono::milliseconds>(context->connect_timeout, kConnectTimeout),
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
  explicit TcpTransport(const TransportContext& context)
      : context_(std::make_shared<const TransportContext>(context)) {}

  Result<std::unique_ptr<SendLink>> open_send(const LinkId& id,
                                              std::shared_ptr<Waiter> waiter) override {
    auto connection = std::make_shared<Connection>();
    net::spawn(context_->service->context().get_executor(),
               connect_link(context_, id, connection, waiter), "link",
               [id, connection, waiter](const Failure& failure) {
                 connection->deliver({failure.kind,
                                      fmt::format("the connection to rank {} could not be made: {}",
                                                  id.to, failure.message),
                                      std::nullopt});
                 waiter->ring();
               });
    return std::make_unique<TcpSendLink>(id.to, std::move(connection), std::move(waiter));
  }

  Result<std::unique_ptr<ReceiveLink>> open_receive(const LinkId& id,
                                                    std::shared_ptr<Waiter> waiter) override {
    std::lock_guard lock(mutex_);
    std::shared_ptr<Connection> connection;
    if (const auto found = arrived_.find(id); found != arrived_.end()) {
      connection = std::move(found->second);
      arrived_.erase(found);
    } else {
      connection = std::make_shared<Connection>();
      awaited_[id] = {connection, waiter};
      drop_gone();
    }
    return std::make_unique<TcpReceiveLink>(id.from, std::move(connection), std::move(waiter));
  }

  void listen(std::shared_ptr<Arrivals> arrivals) override {
    std::lock_guard lock(mutex_);
    const auto [begin, end] = links_of(arrivals->communicator(), arrived_);
    for (auto each = begin; each != end; ++each)
      if (arrivals->concern(each->first)) arrivals->add(each->first.from);
    const auto communicator = arrivals->communicator();
    listening_[communicator] = std::move(arrivals);
  }

  void forget(std::uint64_t communicator) override {
    std::lock_guard lock(mutex_);
    const auto erase_from = [&](auto& links) {
      const auto [begin, end] = links_of(communicator, links);
      links.erase(begin, end);
    };
    erase_from(awaited_);
    erase_from(arrived_);
    listening_.erase(communicator);
    forgotten_.push_back(communicator);
    if (forgotten_.size() > kForgotten) forgotten_.pop_front();
  }

  void accept(tcp::socket socket) override {
    net::spawn(context_->service->context().get_executor(),
               accept_link(weak_from_this(), std::move(socket)), "a link was dropped");
  }

 private:
  /// Receiving ends that are gone; seldom, so that opening one costs no look at all others.
  void drop_gone() {
    if (awaited_.size() < drop_gone_at_) return;
    std::erase_if(awaited_, [](const auto& entry) { return entry.second.connection.expired(); });
    drop_gone_at_ = std::max(kFewAwaited, 2 * awaited_.size());
  }

  /// A receiving end whose peer has not connected yet; gone with its link.
  struct Awaited {
    std::weak_ptr<Connection> connection;
    std::weak_ptr<Waiter> waiter;
  };

  static asio::awaitable<void> accept_link(std::weak_ptr<TcpTransport> transport,
                                           tcp::socket socket) {
    std::array<char, kHelloBytes> hello;
    std::error_code code;
    {
      const net::Deadline deadline(socket, kConnectTimeout);
      co_await asio::async_read(socket, asio::buffer(hello),
                                asio::redirect_error(asio::use_awaitable, code));
    }
    const auto self = transport.lock();
    const auto id = decode({hello.data(), hello.size()});
    // A peer that has proven the token and yet talks nonsense: drop it.
    if (code || !self || id.to != self->context_->rank || id.from >= self->context_->table.size())
      co_return;
    self->arrive(id, socket);
  }

  void arrive(const LinkId& id, tcp::socket& socket) {
    std::lock_guard lock(mutex_);
    if (const auto found = awaited_.find(id); found != awaited_.end()) {
      const auto connection = found->second.connection.lock();
      const auto waiter = found->second.waiter.lock();
      awaited_.erase(found);
      if (!connection) return;
      connection->deliver(socket.release());
      if (waiter) waiter->ring();
      return;
    }
    if (std::ranges::find(forgotten_, id.communicator) != forgotten_.end()) return;
    // A peer may be ahead by as many links as it likes, but not use up this process's descriptors.
    if (arrived_.size() >= net::waiting_connections()) {
      if (!std::exchange(complained_, true))
        log().warn(
            "rank {}: {} connections wait for calls that this rank has not made; more are dropped "
            "(their number follows the limit of descriptors, ulimit -n)",
            context_->rank, arrived_.size());
      return;
    }
    // Each link connects once; a second connection for it is nobody's.
    const auto [entry, is_new] = arrived_.try_emplace(id, std::make_shared<Connection>());
    if (!is_new) return;
    entry->second->deliver(socket.release());
    if (const auto listener = listening_.find(id.communicator); listener != listening_.end())
      if (listener->second->concern(id)) listener->second->add(id.from);
  }

  const Context context_;
  std::mutex mutex_;
  std::map<LinkId, Awaited> awaited_;                             // guarded by mutex_
  std::size_t drop_gone_at_ = kFewAwaited;                        // guarded by mutex_
  std::map<LinkId, std::shared_ptr<Connection>> arrived_;         // guarded by mutex_
  std::map<std::uint64_t, std::shared_ptr<Arrivals>> listening_;  // guarded by mutex_
  std::deque<std::uint64_t> forgotten_;                           // guarded by mutex_
  bool complained_ = false;                                       // guarded by mutex_
};

}  // namespace

bool reaches(const PeerAddress&, const PeerAddress&) { return true; }

std::shared_ptr<Transport> make(const TransportContext& context) {
  return std::make_shared<TcpTransport>(context);
}

}  // namespace ccoll::tcp
