// SPDX-License-Identifier: Apache-2.0
#pragma once

/// TLS 1.3 as a transformation of bytes, by OpenSSL: no sockets, no waiting. Tls has what a process
/// proves and demands, TlsSession is one connection's state; net/wire/stream.hpp puts them on a
/// socket.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ccoll/tls.hpp"
#include "core/result.hpp"

namespace ccoll::net {

/// Immutable; from any thread.
class Tls {
 public:
  /// Null if `options` and the environment leave TLS off. It reads the files.
  static Result<std::shared_ptr<const Tls>> make(const std::string& token,
                                                 const TlsOptions& options);
  virtual ~Tls() = default;
  /// "CCOLL_TLS=psk".
  virtual std::string name() const = 0;
};

/// The proofs that a process gives, and demands of others, where it connects or listens.
struct Credentials {
  // Implicit: a token alone is credentials.
  Credentials(std::string t) : token(std::move(t)) {}
  Credentials(const char* t) : token(t) {}
  std::string token;
  std::shared_ptr<const Tls> tls = nullptr;  ///< null: none

  static Result<Credentials> make(std::string token, const TlsOptions& options);
};

class TlsSession {
 public:
  enum class Role : std::uint8_t { client, server };
  static Result<std::unique_ptr<TlsSession>> begin(std::shared_ptr<const Tls> tls, Role role);
  virtual ~TlsSession() = default;

  /// Takes bytes that came over the wire.
  virtual void feed(std::string_view wire) = 0;
  /// Returns the bytes to send, in order; after a failure, they report it to the peer.
  virtual std::string take() = 0;

  /// True if the handshake is over; false: more must come. If a client's certificate is refused, it
  /// may learn that later: then open() fails.
  virtual Result<bool> shake_hands() = 0;
  /// The plain bytes that are there, up to `into`; 0: more must come; nullopt: the peer has ended.
  virtual Result<std::optional<std::size_t>> open(std::span<char> into) = 0;
  /// `plain` as it goes over the wire, after the bytes that take() would have returned.
  virtual Result<std::string> seal(std::string_view plain) = 0;
  /// The bytes by which the peer learns that nothing more follows.
  virtual std::string seal_end() = 0;
  /// A value that only the two ends of this session know (RFC 9266).
  virtual std::string binding() const = 0;
};

}  // namespace ccoll::net
