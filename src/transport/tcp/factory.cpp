// SPDX-License-Identifier: Apache-2.0
// sender                                        receiver
// connects; hello and proof of the token, as on every connection
// link id                              ──────►  keeps it until that link is opened, or has no
//                                                place, or no descriptor
//                                      ◄──────  says which; without descriptors, also the limit;
//                                                without a place, the sender tries again
// slices                               ──────►
#include "transport/tcp/factory.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <cerrno>

#include "core/bytes.hpp"
#include "core/os_error.hpp"
#include "core/printable.hpp"
#include "net/deadline.hpp"
#include "net/handshake.hpp"
#include "net/lack.hpp"
#include "net/listener.hpp"
#include "system/log.hpp"
#include "transport/arrival_board.hpp"
#include "transport/corruption.hpp"
#include "transport/link_id_wire.hpp"
#include "transport/tcp/link.hpp"

namespace ccoll::tcp {
namespace {

using asio::ip::tcp;

/// The peer has listened since start-up: if it cannot be reached soon, it is gone.
constexpr std::chrono::seconds kConnectTimeout{10};

/// Pauses between two attempts to get a place.
constexpr std::chrono::milliseconds kFirstPause{10}, kLongestPause{250};

/// The receiver's answer: it has the link, it must be asked again later, or lacks descriptors.
constexpr char kTaken = 'T', kLater = 'L', kLacks = 'X';
constexpr std::size_t kMostReasonBytes = 400;

using Context = std::shared_ptr<const TransportContext>;

void ring(const std::weak_ptr<Waiter>& waiter) {
  if (const auto awaits = waiter.lock()) awaits->ring();
}

/// Does on the service thread what the link would otherwise do in its first call. What fails, the
/// link tries again, and says why.
Connection made_ready(FileDescriptor socket, const std::shared_ptr<Waiter>& waiter,
                      std::size_t staging) {
  Connection made{std::move(socket)};
  made.is_watched = waiter && waiter->watch(made.socket.number());
  static_cast<void>(caught([&] {
    made.staging.resize(staging);
    return Status();
  }));
  return made;
}

/// Reads the report of receiver `to` that it lacks descriptors.
asio::awaitable<Failure> lack_of(tcp::socket& socket, std::uint32_t to) {
  std::array<char, 4> head;
  std::error_code code;
  co_await asio::async_read(socket, asio::buffer(head),
                            asio::redirect_error(asio::use_awaitable, code));
  const auto length = net::Reader({head.data(), head.size()}).number<std::uint32_t>();
  std::string text(code ? 0 : std::min<std::size_t>(length, kMostReasonBytes), '\0');
  if (!code)
    co_await asio::async_read(socket, asio::buffer(text),
                              asio::redirect_error(asio::use_awaitable, code));
  auto message = fmt::format("rank {} has no descriptor left for the link to it", to);
  if (!code) message += ": " + printable(text, kMostReasonBytes).text;
  co_return Failure{ErrorKind::exhausted, std::move(message), to};
}

/// For a link within a host. BBR, the default of some systems, sends at the rate that it measures,
/// which on loopback may be half of what is possible. Reno goes by what got lost, and nothing does.
/// It is in every kernel, and everyone may choose it.
void prefer_reno(tcp::socket& socket) {
  setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

/// Connects and names the link. Returns the connection, or none if the receiver has no place yet.
asio::awaitable<Result<std::optional<FileDescriptor>>> try_link(Context context, LinkId id,
                                                                std::shared_ptr<Retries> retries) {
  auto stream = co_await net::connect(
      context->service, endpoint_text(context->table[id.to]), context->token, net::Purpose::link,
      std::min<std::chrono::milliseconds>(context->connect_timeout, kConnectTimeout),
      fmt::format("rank {}", id.to), "has it died?", std::move(retries));
  if (!stream) {
    auto failure = stream.error();
    if (failure.kind == ErrorKind::timed_out) failure.kind = ErrorKind::peer_lost;
    const bool lacks = failure.kind == ErrorKind::exhausted;
    failure.culprit = lacks ? context->rank : id.to;
    if (lacks) failure.message = fmt::format("rank {}: {}", context->rank, failure.message);
    co_return tl::unexpected(std::move(failure));
  }
  auto socket = std::move(*stream).release();
  if (context->table[id.to].host == context->table[id.from].host) prefer_reno(socket);
  const net::Deadline deadline(socket, kConnectTimeout);
  net::Writer hello_of;
  const std::string hello = write(hello_of, id).take();
  char answer = 0;
  std::error_code code;
  co_await asio::async_write(socket, asio::buffer(hello),
                             asio::redirect_error(asio::use_awaitable, code));
  if (!code)
    co_await asio::async_read(socket, asio::buffer(&answer, 1),
                              asio::redirect_error(asio::use_awaitable, code));
  if (code) {
    const bool lacks = ran_out(code);
    co_return tl::unexpected(
        Failure{lacks ? ErrorKind::exhausted : ErrorKind::peer_lost,
                fmt::format("the connection to rank {} broke before the link was established: {}",
                            id.to, os_error(code)),
                lacks ? context->rank : id.to});
  }
  if (answer == kLacks) co_return tl::unexpected(co_await lack_of(socket, id.to));
  if (answer != kTaken) co_return std::nullopt;
  co_return FileDescriptor(socket.release());
}

/// Hands the connection over as soon as the receiver has a place for it. May outlive the link, but
/// keeps no descriptors of a communicator that has ended.
asio::awaitable<void> connect_link(Context context, LinkId id,
                                   std::shared_ptr<Delivery<Connection>> connection,
                                   std::weak_ptr<Waiter> waiter, std::shared_ptr<Retries> retries) {
  asio::steady_timer pause(context->service->context());
  for (auto wait = kFirstPause;; wait = std::min(2 * wait, kLongestPause)) {
    auto tried = co_await try_link(context, id, retries);
    if (!tried)
      connection->deliver(std::move(tried.error()));
    else if (*tried)
      connection->deliver(made_ready(std::move(**tried), waiter.lock(), 0));
    else if (!waiter.expired()) {
      std::error_code ignored;
      pause.expires_after(wait);
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
      continue;
    }
    co_return ring(waiter);
  }
}

class TcpTransport final : public Transport, public std::enable_shared_from_this<TcpTransport> {
 public:
  explicit TcpTransport(const TransportContext& context)
      : context_(std::make_shared<const TransportContext>(context)), meeting_(context.rank) {}

  Result<std::unique_ptr<SendLink>> open_send(const LinkId& id,
                                              std::shared_ptr<Waiter> waiter) override {
    auto connection = std::make_shared<Delivery<Connection>>();
    auto retries = std::make_shared<Retries>(0);
    net::spawn(context_->service->context().get_executor(),
               connect_link(context_, id, connection, waiter, retries), "link",
               [id, connection, waiter = std::weak_ptr(waiter)](const Failure& failure) {
                 connection->deliver(
                     {failure.kind,
                      fmt::format("the connection to rank {} of the job could not be made: {}",
                                  id.to, failure.message),
                      std::nullopt});
                 ring(waiter);
               });
    return std::make_unique<TcpSendLink>(id.to, std::move(connection), std::move(waiter),
                                         std::move(retries), context_->checksum);
  }

  Result<std::unique_ptr<ReceiveLink>> open_receive(const LinkId& id,
                                                    std::shared_ptr<Waiter> waiter) override {
    std::optional<std::string> checked_as;
    if (context_->checksum) checked_as = link_name("TCP", *context_, id);
    return std::make_unique<TcpReceiveLink>(id.from, meeting_.await(id, waiter), waiter,
                                            std::move(checked_as));
  }

  void listen(std::shared_ptr<Arrivals> arrivals) override { meeting_.listen(std::move(arrivals)); }
  void forget(std::uint64_t communicator) override {
    // The sender needs no more than the close of its connection.
    meeting_.forget(communicator, [](const Connection&) {});
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
    // The peer has proven the token but sends nonsense: drop the connection.
    if (code || !self || id.to != self->context_->rank || id.from >= self->context_->table.size())
      co_return;
    std::string answer(1, self->meeting_.has_place(id) ? kTaken : kLater);
    if (!net::has_descriptors_left())
      answer = kLacks + net::Writer().text(os_error(EMFILE).substr(0, kMostReasonBytes)).take();
    co_await asio::async_write(socket, asio::buffer(answer),
                               asio::redirect_error(asio::use_awaitable, code));
    if (code || answer[0] != kTaken) co_return;
    const auto staging =
        self->context_->works_ahead(id.communicator) ? kLongStaging : kLeastStaging;
    self->meeting_.arrive(
        id, made_ready(FileDescriptor(socket.release()), self->meeting_.waiter_of(id), staging));
  }

  const Context context_;
  ArrivalBoard<Connection> meeting_;
};

}  // namespace

bool reaches(const PeerAddress&, const PeerAddress&) { return true; }

std::shared_ptr<Transport> make(const TransportContext& context, std::shared_ptr<Transport>) {
  return std::make_shared<TcpTransport>(context);
}

}  // namespace ccoll::tcp
