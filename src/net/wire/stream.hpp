// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A connection that the handshake has let in, or is about to: a socket, with TLS between it and
/// whoever reads and writes, or without. On the service thread.

#include <asio/awaitable.hpp>
#include <asio/buffer.hpp>
#include <asio/ip/tcp.hpp>
#include <memory>
#include <string>
#include <system_error>

#include "net/wire/tls.hpp"

namespace ccoll::net {

class Stream {
 public:
  explicit Stream(asio::ip::tcp::socket socket) : socket_(std::move(socket)) {}

  asio::any_io_executor get_executor() { return socket_.get_executor(); }
  bool is_open() const { return socket_.is_open(); }
  void close(std::error_code& error) { socket_.close(error); }
  /// For options, and for what seal() made: writes go to it in the order of the calls of seal().
  asio::ip::tcp::socket& socket() { return socket_; }
  const asio::ip::tcp::socket& socket() const { return socket_; }
  /// The socket alone, of a stream without TLS.
  asio::ip::tcp::socket release() &&;

  /// Shakes hands over TLS; once, before any other byte. What fails says so to the peer first.
  asio::awaitable<Status> secure(std::shared_ptr<const Tls> tls, TlsSession::Role role);
  bool encrypted() const { return tls_ != nullptr; }
  /// What only the two ends of this stream know; empty without TLS.
  std::string binding() const { return tls_ ? tls_->binding() : std::string(); }

  /// At least one byte, or an error. The end of the peer's bytes is asio::error::eof, also where
  /// TLS would have had the peer say so before: whoever reads knows by the frames whether it is
  /// whole.
  asio::awaitable<std::size_t> read_some(asio::mutable_buffer into, std::error_code& error);
  /// As many bytes as `into` has, or fewer and an error.
  asio::awaitable<std::size_t> read(asio::mutable_buffer into, std::error_code& error);
  /// All of `bytes`, or an error, and then reading comes to an end, too. One writer at a time.
  asio::awaitable<void> write(std::string bytes, std::error_code& error);

  /// `bytes` as they are to go to socket(), for those who queue them; empty after a failure, which
  /// reading tells.
  std::string seal(std::string bytes);
  /// Nothing more follows what was written: the peer sees the end. Reading goes on.
  void finish();

  /// Why reading or writing failed, in words: TLS knows more than an error code says.
  std::string reason(const std::error_code& error) const;
  /// What went wrong in TLS; empty: nothing.
  const std::string& trouble() const { return trouble_; }

 private:
  asio::awaitable<Status> shake_hands(TlsSession& session);
  std::error_code failed(const Failure& failure);

  asio::ip::tcp::socket socket_;
  std::unique_ptr<TlsSession> tls_;  ///< null: bytes go as they are
  std::string wire_;                 ///< room for what comes, with TLS
  std::string trouble_;
};

/// Waits until the peer has read what was written to `socket`, and ended: closing with unread bytes
/// would reset the connection and take our last words away. Whoever calls bounds it in time.
template <typename Socket>
asio::awaitable<void> drain(Socket& socket);

}  // namespace ccoll::net
