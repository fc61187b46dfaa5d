// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/factory.hpp"

#include <algorithm>
#include <array>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include "core/log.hpp"
#include "core/net/bytes.hpp"
#include "core/net/deadline.hpp"
#include "core/net/handshake.hpp"
#include "core/net/listener.hpp"
#include "transport/link_id_wire.hpp"
#include "transport/meeting.hpp"
#include "transport/tcp/link.hpp"

namespace ccoll::tcp {
namespace {

using asio::ip::tcp;

/// The peer's listener has stood since start-up: if it cannot be reached soon it is gone.
constexpr std::chrono::seconds kConnectTimeout{10};

std::string address_of(const PeerAddress& peer) {
  const auto ip = ip_text(peer);
  return ip.find(':') == std::string::npos ? fmt::format("{}:{}", ip, peer.port)
                                           : fmt::format("[{}]:{}", ip, peer.port);
}

using Context = std::shared_ptr<const TransportContext>;

void ring(const std::weak_ptr<Waiter>& waiter) {
  if (const auto awaits = waiter.lock()) awaits->ring();
}

/// Connects, says which link it is, and hands the stream over. Outlives the link if need be, but
/// keeps no descriptors of a communicator that has ended.
asio::awaitable<void> connect_link(Context context, LinkId id,
                                   std::shared_ptr<Delivery<FileDescriptor>> connection,
                                   std::weak_ptr<Waiter> waiter) {
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
    net::Writer hello_of;
    const auto hello = write(hello_of, id).take();
    std::error_code code;
    co_await asio::async_write(*socket, asio::buffer(hello),
                               asio::redirect_error(asio::use_awaitable, code));
    if (code)
      connection->deliver(
          {ErrorKind::peer_lost,
           fmt::format("the connection to rank {} broke: {}", id.to, code.message()), id.to});
    else
      connection->deliver(FileDescriptor(socket->release()));
  }
  ring(waiter);
}

class TcpTransport final : public Transport, public std::enable_shared_from_this<TcpTransport> {
 public:
  explicit TcpTransport(const TransportContext& context)
      : context_(std::make_shared<const TransportContext>(context)), meeting_(context.rank) {}

  Result<std::unique_ptr<SendLink>> open_send(const LinkId& id,
                                              std::shared_ptr<Waiter> waiter) override {
    auto connection = std::make_shared<Delivery<FileDescriptor>>();
    net::spawn(context_->service->context().get_executor(),
               connect_link(context_, id, connection, waiter), "link",
               [id, connection, waiter = std::weak_ptr(waiter)](const Failure& failure) {
                 connection->deliver({failure.kind,
                                      fmt::format("the connection to rank {} could not be made: {}",
                                                  id.to, failure.message),
                                      std::nullopt});
                 ring(waiter);
               });
    return std::make_unique<TcpSendLink>(id.to, std::move(connection), std::move(waiter));
  }

  Result<std::unique_ptr<ReceiveLink>> open_receive(const LinkId& id,
                                                    std::shared_ptr<Waiter> waiter) override {
    return std::make_unique<TcpReceiveLink>(id.from, meeting_.await(id, waiter), waiter);
  }

  void listen(std::shared_ptr<Arrivals> arrivals) override { meeting_.listen(std::move(arrivals)); }
  void forget(std::uint64_t communicator) override {
    // A dropped connection is closed, which is all its sender needs.
    meeting_.forget(communicator, [](FileDescriptor) {});
  }

  void accept(tcp::socket socket) override {
    net::spawn(context_->service->context().get_executor(),
               accept_link(weak_from_this(), std::move(socket)), "a link was dropped");
  }

 private:
  static asio::awaitable<void> accept_link(std::weak_ptr<TcpTransport> transport,
                                           tcp::socket socket) {
    std::array<char, kLinkIdBytes> hello;
    std::error_code code;
    {
      const net::Deadline deadline(socket, kConnectTimeout);
      co_await asio::async_read(socket, asio::buffer(hello),
                                asio::redirect_error(asio::use_awaitable, code));
    }
    const auto self = transport.lock();
    net::Reader reader({hello.data(), hello.size()});
    const auto id = read_link_id(reader);
    // A peer that has proven the token and yet talks nonsense: drop it.
    if (code || !self || id.to != self->context_->rank || id.from >= self->context_->table.size())
      co_return;
    self->meeting_.arrive(id, FileDescriptor(socket.release()));
  }

  const Context context_;
  Meeting<FileDescriptor> meeting_;
};

}  // namespace

bool reaches(const PeerAddress&, const PeerAddress&) { return true; }

std::shared_ptr<Transport> make(const TransportContext& context, std::shared_ptr<Transport>) {
  return std::make_shared<TcpTransport>(context);
}

}  // namespace ccoll::tcp
