// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A connection that the handshake has let in, or is about to: a socket, with or without TLS
/// between it and its reader and writer. Used on the service thread.

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
  /// For options, and to write what seal() returns, in the order of the calls of seal().
  asio::ip::tcp::socket& socket() { return socket_; }
  const asio::ip::tcp::socket& socket() const { return socket_; }
  /// Gives up the socket of a stream without TLS.
  asio::ip::tcp::socket release() &&;

  /// Shakes hands over TLS; once, before any other byte. A failure is first sent to the peer.
  asio::awaitable<Status> secure(std::shared_ptr<const Tls> tls, TlsSession::Role role);
  bool encrypted() const { return tls_ != nullptr; }
  /// A value that only the two ends of this stream know; empty without TLS.
  std::string binding() const { return tls_ ? tls_->binding() : std::string(); }

  /// Reads at least one byte, or fails. The end of the peer's bytes is asio::error::eof, even if
  /// TLS expects a closing message before it: the reader knows by the frames whether they are
  /// whole.
  asio::awaitable<std::size_t> read_some(asio::mutable_buffer into, std::error_code& error);
  /// Reads as many bytes as `into` has, or fewer and fails.
  asio::awaitable<std::size_t> read(asio::mutable_buffer into, std::error_code& error);
  /// Writes all of `bytes`, or fails, and then reading ends too. One writer at a time.
  asio::awaitable<void> write(std::string bytes, std::error_code& error);

  /// `bytes` as they must go to socket(), for callers that queue them; empty after a failure, which
  /// reading reports.
  std::string seal(std::string bytes);
  /// Nothing follows the bytes written so far: the peer sees the end. Reading goes on.
  void finish();

  /// The reason why reading or writing failed: TLS knows more than an error code says.
  std::string reason(const std::error_code& error) const;
  /// The failure in TLS; empty if there is none.
  const std::string& trouble() const { return trouble_; }

 private:
  asio::awaitable<Status> shake_hands(TlsSession& session);
  std::error_code failed(const Failure& failure);

  asio::ip::tcp::socket socket_;
  std::unique_ptr<TlsSession> tls_;  ///< null: bytes go unchanged
  std::string wire_;                 ///< room for received bytes, with TLS
  std::string trouble_;
};

/// Waits until the peer has read all that was written to `socket`, and ended. Closing with unread
/// bytes would reset the connection and lose our last words. The caller sets a time limit.
template <typename Socket>
asio::awaitable<void> drain(Socket& socket);

}  // namespace ccoll::net
