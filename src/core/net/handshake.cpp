// SPDX-License-Identifier: Apache-2.0
// Four messages: the client's hello, the server's challenge, the client's proof, the server's
// verdict and proof. The client proves first, so that a stranger who connects learns nothing that
// was made with the token. Magic, version and verdict stand where they are in every version.
#include "core/net/handshake.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>
#include <asio/buffer.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <string_view>

#include "core/net/bytes.hpp"
#include "core/net/deadline.hpp"
#include "core/net/listener.hpp"

namespace ccoll::net {
namespace {

using asio::ip::tcp;
using Local = asio::local::stream_protocol;

constexpr std::string_view kMagic = "ccoll\r\n\x01";
constexpr std::size_t kNonceBytes = 32;
constexpr std::size_t kProofBytes = 32;
constexpr std::size_t kVersionedBytes = kMagic.size() + sizeof kProtocolVersion;
/// The hello's remainder: purpose and nonce.
constexpr std::size_t kHelloRestBytes = 1 + kNonceBytes;

enum class Verdict : std::uint8_t { good = 0, version_differs = 1, token_differs = 2, purpose = 3 };

/// The facts that a proof binds together.
struct Facts {
  std::uint8_t purpose = 0;
  std::string client_nonce;
  std::string server_nonce;
};

Result<std::string> make_nonce() {
  std::string nonce(kNonceBytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), static_cast<int>(nonce.size())) !=
      1) {
    return fail(ErrorKind::exhausted, "the system gives no random bytes for the handshake");
  }
  return nonce;
}

/// HMAC-SHA256 over role and facts: a proof of one role or purpose is none of another.
std::string prove(const std::string& token, std::string_view role, const Facts& facts) {
  const std::string text = Writer()
                               .text("ccoll hello")
                               .text(role)
                               .number(kProtocolVersion)
                               .number(facts.purpose)
                               .text(facts.client_nonce)
                               .text(facts.server_nonce)
                               .take();
  std::string proof(kProofBytes, '\0');
  unsigned int length = 0;
  const auto* made = HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()),
                          reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                          reinterpret_cast<unsigned char*>(proof.data()), &length);
  CCOLL_CHECK(made != nullptr && length == kProofBytes, "HMAC-SHA256 gave {} bytes", length);
  return proof;
}

bool same(const std::string& a, const std::string& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string versioned() { return std::string(kMagic) + Writer().number(kProtocolVersion).take(); }

/// What a stranger said, fit for a line of text.
std::string printable(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += c >= 0x20 && c < 0x7f ? c : '.';
  return text;
}

std::string remote(const tcp::socket& socket) {
  std::error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  return error ? "the peer" : fmt::format("tcp://{}", to_string(endpoint));
}

std::string remote(const Local::socket&) { return "a process of this host"; }

/// Exactly `count` bytes, or fewer when the connection ends first.
template <typename Socket>
asio::awaitable<std::string> receive(Socket& socket, std::size_t count) {
  std::string bytes(count, '\0');
  std::error_code error;
  const std::size_t got = co_await asio::async_read(
      socket, asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, error));
  bytes.resize(got);
  co_return bytes;
}

template <typename Socket>
asio::awaitable<bool> send(Socket& socket, std::string bytes) {
  std::error_code error;
  co_await asio::async_write(socket, asio::buffer(bytes),
                             asio::redirect_error(asio::use_awaitable, error));
  co_return !error;
}

/// Says no and waits until the client has read it: closing with unread bytes would reset the
/// connection and take the answer away. What the client still sends is bounded by the deadline.
template <typename Socket>
asio::awaitable<void> refuse(Socket& socket, std::string answer) {
  const bool sent = co_await send(socket, std::move(answer));
  std::error_code error;
  if (sent) socket.shutdown(Socket::shutdown_send, error);
  constexpr std::size_t kMostBytes = 64 << 10;
  std::array<char, 1024> waste;
  for (std::size_t total = 0; sent && !error && total < kMostBytes;) {
    total += co_await socket.async_read_some(asio::buffer(waste),
                                             asio::redirect_error(asio::use_awaitable, error));
  }
}

tl::unexpected<Failure> not_ours(const std::string& who, std::string_view bytes) {
  if (bytes.empty()) {
    return fail(ErrorKind::peer_lost,
                "{} is not a ccoll of protocol version {}, or is ending: it closed the connection "
                "during the hello",
                who, kProtocolVersion);
  }
  return fail(ErrorKind::mismatch,
              "{} is not a ccoll of protocol version {}: it answered \"{}\"; is another program "
              "listening there?",
              who, kProtocolVersion, printable(bytes));
}

tl::unexpected<Failure> other_version(const std::string& who, std::uint16_t version) {
  return fail(ErrorKind::mismatch,
              "{} is not a ccoll of protocol version {} but of {}: use the same ccoll on all ranks",
              who, kProtocolVersion, version);
}

tl::unexpected<Failure> other_token(const std::string& who) {
  return fail(ErrorKind::mismatch,
              "{}: the token differs; give all ranks and the store the same CCOLL_TOKEN_FILE "
              "(cc-run --token-file)",
              who);
}

/// The client's side, the deadline being watched by the caller.
template <typename Socket>
asio::awaitable<Status> greet_now(Socket& socket, std::string token, Purpose purpose,
                                  std::string who) {
  auto nonce = make_nonce();
  if (!nonce) co_return tl::unexpected(nonce.error());
  Facts facts{static_cast<std::uint8_t>(purpose), *nonce, {}};
  std::string hello = versioned() + Writer().number(facts.purpose).take() + facts.client_nonce;
  co_await send(socket, std::move(hello));

  // Errors of sending show, with the reason, in what there is to receive.
  const std::string head = co_await receive(socket, kVersionedBytes + 1);
  if (!head.starts_with(kMagic)) co_return not_ours(who, head);
  Reader reader(std::string_view(head).substr(kMagic.size()));
  const auto version = reader.number<std::uint16_t>();
  const auto first = static_cast<Verdict>(reader.number<std::uint8_t>());
  if (reader.bad()) co_return not_ours(who, {});
  if (version != kProtocolVersion) co_return other_version(who, version);
  if (first != Verdict::good) {
    co_return fail(ErrorKind::mismatch, "{} does not serve connections of purpose {}", who,
                   facts.purpose);
  }
  facts.server_nonce = co_await receive(socket, kNonceBytes);
  if (facts.server_nonce.size() < kNonceBytes) co_return not_ours(who, {});

  std::string proof = prove(token, "client", facts);
  co_await send(socket, std::move(proof));
  const std::string verdict = co_await receive(socket, 1);
  if (verdict.empty()) co_return not_ours(who, {});
  if (static_cast<Verdict>(verdict[0]) != Verdict::good) co_return other_token(who);
  const std::string theirs = co_await receive(socket, kProofBytes);
  if (theirs.size() < kProofBytes) co_return not_ours(who, {});
  if (!same(theirs, prove(token, "server", facts))) co_return other_token(who);
  co_return Status{};
}

template <typename Socket>
asio::awaitable<Result<Purpose>> answer_now(Socket& socket, std::string token, std::string who) {
  const std::string magic = co_await receive(socket, kMagic.size());
  if (magic != kMagic) {
    co_return fail(ErrorKind::corrupt, "{} sent \"{}\", which is no hello of ccoll", who,
                   printable(magic));
  }
  const std::string head = co_await receive(socket, kVersionedBytes - kMagic.size());
  if (head.size() < sizeof kProtocolVersion) {
    co_return fail(ErrorKind::corrupt, "{} sent half a hello", who);
  }
  const auto version = Reader(head).number<std::uint16_t>();
  if (version != kProtocolVersion) {
    std::string no = versioned() + static_cast<char>(Verdict::version_differs);
    co_await refuse(socket, std::move(no));
    co_return other_version(who, version);
  }
  const std::string rest = co_await receive(socket, kHelloRestBytes);
  if (rest.size() < kHelloRestBytes) {
    co_return fail(ErrorKind::corrupt, "{} sent half a hello", who);
  }
  Facts facts{static_cast<std::uint8_t>(rest[0]), rest.substr(1), {}};
  if (facts.purpose < 1 || facts.purpose > static_cast<std::uint8_t>(Purpose::memory)) {
    std::string no = versioned() + static_cast<char>(Verdict::purpose);
    co_await refuse(socket, std::move(no));
    co_return fail(ErrorKind::corrupt, "{} asks for the unknown purpose {}", who, facts.purpose);
  }
  auto nonce = make_nonce();
  if (!nonce) co_return tl::unexpected(nonce.error());
  facts.server_nonce = *nonce;
  std::string challenge = versioned() + static_cast<char>(Verdict::good) + facts.server_nonce;
  co_await send(socket, std::move(challenge));

  const std::string theirs = co_await receive(socket, kProofBytes);
  if (theirs.size() < kProofBytes) {
    co_return fail(ErrorKind::corrupt, "{} left before proving that it knows the token", who);
  }
  if (!same(theirs, prove(token, "client", facts))) {
    std::string no(1, static_cast<char>(Verdict::token_differs));
    co_await refuse(socket, std::move(no));
    co_return other_token(who);
  }
  std::string yes = static_cast<char>(Verdict::good) + prove(token, "server", facts);
  const bool sent = co_await send(socket, std::move(yes));
  if (!sent) co_return fail(ErrorKind::peer_lost, "{} left during the hello", who);
  co_return static_cast<Purpose>(facts.purpose);
}

tl::unexpected<Failure> too_slow(const std::string& who, std::chrono::milliseconds timeout) {
  return fail(ErrorKind::timed_out, "{} did not finish the hello within {} ms", who,
              timeout.count());
}

}  // namespace

template <typename Socket>
asio::awaitable<Status> greet(Socket& socket, std::string token, Purpose purpose,
                              std::chrono::milliseconds timeout) {
  const std::string who = remote(socket);
  const Deadline deadline(socket, timeout);
  Status status = co_await greet_now(socket, std::move(token), purpose, who);
  if (deadline.expired()) co_return too_slow(who, timeout);
  co_return status;
}

template <typename Socket>
asio::awaitable<Result<Purpose>> answer(Socket& socket, std::string token,
                                        std::chrono::milliseconds timeout) {
  const std::string who = remote(socket);
  const Deadline deadline(socket, timeout);
  Result<Purpose> purpose = co_await answer_now(socket, std::move(token), who);
  if (deadline.expired()) co_return too_slow(who, timeout);
  co_return purpose;
}

using Milliseconds = std::chrono::milliseconds;
template asio::awaitable<Status> greet(tcp::socket&, std::string, Purpose, Milliseconds);
template asio::awaitable<Status> greet(Local::socket&, std::string, Purpose, Milliseconds);
template asio::awaitable<Result<Purpose>> answer(tcp::socket&, std::string, Milliseconds);
template asio::awaitable<Result<Purpose>> answer(Local::socket&, std::string, Milliseconds);

}  // namespace ccoll::net
