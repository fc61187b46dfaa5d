// SPDX-License-Identifier: Apache-2.0
#pragma once

/// TLS 1.3 as a transformation of bytes, by OpenSSL: no sockets, no waiting. Tls is what a process
/// shows and asks for, TlsSession one connection's state; net/wire/stream.hpp puts them on a
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
  /// Null where `options` and the environment leave it off. Reads the files.
  static Result<std::shared_ptr<const Tls>> make(const std::string& token,
                                                 const TlsOptions& options);
  virtual ~Tls() = default;
  /// "CCOLL_TLS=psk".
  virtual std::string name() const = 0;
};

/// What a process proves, and asks of others, where it connects or listens.
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

  /// Takes what came over the wire.
  virtual void feed(std::string_view wire) = 0;
  /// Gives what is to go over it, in order; also after a failure, which the peer learns from it.
  virtual std::string take() = 0;

  /// True once the handshake is over; false: more must come. A client may hear later that its
  /// certificate is refused: then open() fails.
  virtual Result<bool> shake_hands() = 0;
  /// The plain bytes that are there, up to `into`; 0: more must come; nullopt: the peer has ended.
  virtual Result<std::optional<std::size_t>> open(std::span<char> into) = 0;
  /// `plain` as it goes over the wire, with whatever take() would have given before it.
  virtual Result<std::string> seal(std::string_view plain) = 0;
  /// What tells the peer that nothing more follows.
  virtual std::string seal_end() = 0;
  /// A value that both ends of this very session know and nobody else (RFC 9266).
  virtual std::string binding() const = 0;
};

}  // namespace ccoll::net
