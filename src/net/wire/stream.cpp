// SPDX-License-Identifier: Apache-2.0
#include "net/wire/stream.hpp"

#include <array>
#include <asio/local/stream_protocol.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

namespace ccoll::net {
namespace {

using asio::ip::tcp;

constexpr std::size_t kWireBytes = 4096;

}  // namespace

template <typename Socket>
asio::awaitable<void> drain(Socket& socket) {
  std::error_code error;
  socket.shutdown(Socket::shutdown_send, error);
  constexpr std::size_t kMostBytes = 64 << 10;
  std::array<char, 1024> waste;
  for (std::size_t total = 0; !error && total < kMostBytes;) {
    total += co_await socket.async_read_some(asio::buffer(waste),
                                             asio::redirect_error(asio::use_awaitable, error));
  }
}
template asio::awaitable<void> drain(tcp::socket&);
template asio::awaitable<void> drain(asio::local::stream_protocol::socket&);

tcp::socket Stream::release() && {
  CCOLL_CHECK(!tls_, "a stream with TLS is more than its socket");
  return std::move(socket_);
}

std::error_code Stream::failed(const Failure& failure) {
  trouble_ = "TLS: " + failure.message;
  return std::make_error_code(std::errc::protocol_error);
}

std::string Stream::reason(const std::error_code& error) const {
  return trouble_.empty() ? error.message() : trouble_;
}

asio::awaitable<Status> Stream::shake_hands(TlsSession& session) {
  for (;;) {
    const Result<bool> over = session.shake_hands();
    std::error_code error;
    if (const std::string wire = session.take(); !wire.empty()) {
      co_await asio::async_write(socket_, asio::buffer(wire),
                                 asio::redirect_error(asio::use_awaitable, error));
    }
    if (!over) {
      co_await drain(socket_);
      co_return fail(over.error().kind, "TLS: {}", over.error().message);
    }
    if (*over) co_return Status{};
    const std::size_t count = co_await socket_.async_read_some(
        asio::buffer(wire_), asio::redirect_error(asio::use_awaitable, error));
    if (error)
      co_return fail(ErrorKind::peer_lost, "it closed the connection during the TLS handshake ({})",
                     error.message());
    session.feed({wire_.data(), count});
  }
}

asio::awaitable<Status> Stream::secure(std::shared_ptr<const Tls> tls, TlsSession::Role role) {
  auto session = TlsSession::begin(std::move(tls), role);
  if (!session) co_return tl::unexpected(session.error());
  wire_.resize(kWireBytes);
  Status status = co_await shake_hands(**session);
  if (status) tls_ = std::move(*session);
  co_return status;
}

asio::awaitable<std::size_t> Stream::read_some(asio::mutable_buffer into, std::error_code& error) {
  while (tls_ && trouble_.empty()) {
    const auto opened = tls_->open({static_cast<char*>(into.data()), into.size()});
    if (!opened) error = failed(opened.error());
    if (opened && !*opened) error = asio::error::eof;
    if (error) co_return 0;
    if (**opened > 0) co_return **opened;
    const std::size_t count = co_await socket_.async_read_some(
        asio::buffer(wire_), asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    tls_->feed({wire_.data(), count});
  }
  std::size_t count = 0;
  if (!tls_ && !error)
    count =
        co_await socket_.async_read_some(into, asio::redirect_error(asio::use_awaitable, error));
  if (!trouble_.empty()) error = std::make_error_code(std::errc::protocol_error);
  co_return count;
}

asio::awaitable<std::size_t> Stream::read(asio::mutable_buffer into, std::error_code& error) {
  std::size_t total = 0;
  while (total < into.size() && !error) total += co_await read_some(into + total, error);
  co_return total;
}

asio::awaitable<void> Stream::write(std::string bytes, std::error_code& error) {
  const std::string wire = seal(std::move(bytes));
  co_await asio::async_write(socket_, asio::buffer(wire),
                             asio::redirect_error(asio::use_awaitable, error));
  // If the peer has ended it, the bytes left to read show that, with the reason. A lack of memory
  // on this side (ENOBUFS) does not show, and waiting for an answer would be in vain.
  if (error && error != asio::error::broken_pipe && error != asio::error::connection_reset) {
    std::error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_both, ignored);
  }
}

std::string Stream::seal(std::string bytes) {
  if (!tls_) return bytes;
  auto wire = tls_->seal(bytes);
  if (wire) return std::move(*wire);
  failed(wire.error());
  // The reader, which may wait for bytes, then sees the end and asks for the reason.
  std::error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_both, ignored);
  return {};
}

void Stream::finish() {
  std::error_code ignored;
  if (tls_ && trouble_.empty()) {
    // If the kernel has no room for it, do not wait: the end of the bytes says the same.
    const std::string wire = tls_->seal_end();
    socket_.non_blocking(true, ignored);
    socket_.write_some(asio::buffer(wire), ignored);
  }
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
}

}  // namespace ccoll::net
