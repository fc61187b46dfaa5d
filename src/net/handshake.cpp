// SPDX-License-Identifier: Apache-2.0
// The hello has four messages: the client's hello, the server's challenge, the client's proof, and
// the server's verdict and proof. The client proves first, so a stranger learns nothing made with
// the token. Magic, version and verdict have the same place in every version. TLS comes first on a
// Stream with credentials for it; the client's first byte shows it.
#include "net/handshake.hpp"

#include <openssl/crypto.h>

#include <asio/buffer.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <new>
#include <span>
#include <string_view>

#include "core/bytes.hpp"
#include "net/deadline.hpp"
#include "net/listener.hpp"
#include "net/wire/hmac.hpp"
#include "system/random.hpp"

namespace ccoll::net {
namespace {

using Local = asio::local::stream_protocol;

constexpr std::string_view kMagic = "ccoll\r\n\x01";
constexpr std::size_t kNonceBytes = 32;
constexpr std::size_t kProofBytes = kHmacBytes;
constexpr std::size_t kVersionedBytes = kMagic.size() + sizeof kProtocolVersion;
/// The hello's remainder: purpose and nonce.
constexpr std::size_t kHelloRestBytes = 1 + kNonceBytes;

enum class Verdict : std::uint8_t {
  good = 0,
  version_differs = 1,
  token_differs = 2,
  purpose = 3,
  tls_needed = 4
};
/// The first byte of every TLS handshake; no hello of ours begins with it.
constexpr char kTlsRecord = 0x16;

/// The facts that a proof binds together.
struct Facts {
  std::uint8_t purpose = 0;
  std::string client_nonce;
  std::string server_nonce;
  std::string channel;  ///< Stream::binding; empty without TLS
};

Result<std::string> make_nonce() {
  std::string nonce(kNonceBytes, '\0');
  CCOLL_TRY(fill_random(std::as_writable_bytes(std::span(nonce))));
  return nonce;
}

/// HMAC-SHA256 over role and facts: a proof is valid only for its own role and purpose.
std::string prove(const std::string& token, std::string_view role, const Facts& facts) {
  Writer writer;
  writer.text("ccoll hello")
      .text(role)
      .number(kProtocolVersion)
      .number(facts.purpose)
      .text(facts.client_nonce)
      .text(facts.server_nonce);
  if (!facts.channel.empty()) writer.text(facts.channel);
  return hmac_sha256(token, writer.take());
}

bool same(const std::string& a, const std::string& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string versioned() { return std::string(kMagic) + Writer().number(kProtocolVersion).take(); }

/// A stranger's bytes, made fit for a line of text.
std::string printable(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += c >= 0x20 && c < 0x7f ? c : '.';
  return text;
}

std::string remote(const Stream& stream) {
  std::error_code error;
  const auto endpoint = stream.socket().remote_endpoint(error);
  return error ? "the peer" : fmt::format("tcp://{}", to_string(endpoint));
}

std::string remote(const Local::socket&) { return "a process of this host"; }

/// Receives exactly `count` bytes, or fewer if the connection ends first.
asio::awaitable<std::string> receive(Local::socket& socket, std::size_t count) {
  std::string bytes(count, '\0');
  std::error_code error;
  const std::size_t got = co_await asio::async_read(
      socket, asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, error));
  bytes.resize(got);
  co_return bytes;
}

asio::awaitable<std::string> receive(Stream& stream, std::size_t count) {
  std::string bytes(count, '\0');
  std::error_code error;
  const std::size_t got = co_await stream.read(asio::buffer(bytes), error);
  bytes.resize(got);
  co_return bytes;
}

asio::awaitable<std::error_code> send(Local::socket& socket, std::string bytes) {
  std::error_code error;
  co_await asio::async_write(socket, asio::buffer(bytes),
                             asio::redirect_error(asio::use_awaitable, error));
  co_return error;
}

asio::awaitable<std::error_code> send(Stream& stream, std::string bytes) {
  std::error_code error;
  co_await stream.write(std::move(bytes), error);
  co_return error;
}

/// Whether the peer has ended the connection. If so, the bytes that are left to receive say why.
/// After any other error (ENOBUFS) waiting for them would be in vain.
bool peer_ended(const std::error_code& error) {
  return error == asio::error::broken_pipe || error == asio::error::connection_reset;
}

tl::unexpected<Failure> not_sent(const std::string& who, const std::error_code& error) {
  return fail(ErrorKind::exhausted, "the hello to {} could not be sent: {}", who, error.message());
}

Local::socket& raw(Local::socket& socket) { return socket; }
asio::ip::tcp::socket& raw(Stream& stream) { return stream.socket(); }

std::string binding(const Local::socket&) { return {}; }
std::string binding(const Stream& stream) { return stream.binding(); }

bool is_for_tls(Purpose purpose) {
  return purpose == Purpose::store || purpose == Purpose::control;
}

/// Sends a refusal and waits until the client has read it; the deadline limits the wait.
template <typename Socket>
asio::awaitable<void> refuse(Socket& socket, std::string answer) {
  const std::error_code error = co_await send(socket, std::move(answer));
  if (!error) co_await drain(raw(socket));
}

tl::unexpected<Failure> not_ours(const std::string& who, std::string_view bytes) {
  if (bytes.empty()) {
    return fail(ErrorKind::peer_lost,
                "{} does not speak ccoll protocol version {}, or is ending, or has no descriptors "
                "left: it closed the connection during the hello",
                who, kProtocolVersion);
  }
  return fail(ErrorKind::mismatch,
              "{} does not speak ccoll protocol version {}: it answered \"{}\"; is another program "
              "listening there?",
              who, kProtocolVersion, printable(bytes));
}

tl::unexpected<Failure> other_version(const std::string& who, std::uint16_t version) {
  return fail(
      ErrorKind::mismatch,
      "{} does not speak ccoll protocol version {} but version {}: use the same ccoll on all ranks",
      who, kProtocolVersion, version);
}

tl::unexpected<Failure> other_token(const std::string& who) {
  return fail(ErrorKind::mismatch,
              "{}: the token differs; give all ranks and the store the same CCOLL_TOKEN_FILE "
              "(cc-run --token-file)",
              who);
}

/// The failure that the server's first answer stands for, unless that is good.
tl::unexpected<Failure> refused(const std::string& who, Verdict verdict, Purpose purpose) {
  if (verdict == Verdict::tls_needed)
    return fail(
        ErrorKind::mismatch,
        "{} asks for TLS, and this side has CCOLL_TLS=off: give all ranks and the store the "
        "same",
        who);
  return fail(ErrorKind::mismatch, "{} does not serve connections of purpose {}", who,
              static_cast<int>(purpose));
}

/// The client's side; the caller watches the deadline.
template <typename Socket>
asio::awaitable<Status> greet_now(Socket& socket, std::string token, Purpose purpose,
                                  std::string who) {
  auto nonce = make_nonce();
  if (!nonce) co_return tl::unexpected(nonce.error());
  Facts facts{static_cast<std::uint8_t>(purpose), *nonce, {}, binding(socket)};
  std::string hello = versioned() + Writer().number(facts.purpose).take() + facts.client_nonce;
  std::error_code error = co_await send(socket, std::move(hello));
  if (error && !peer_ended(error)) co_return not_sent(who, error);

  const std::string head = co_await receive(socket, kVersionedBytes + 1);
  // The connection may end in the middle.
  if (kMagic.starts_with(head)) co_return not_ours(who, {});
  if (!head.starts_with(kMagic)) co_return not_ours(who, head);
  Reader reader(std::string_view(head).substr(kMagic.size()));
  const auto version = reader.number<std::uint16_t>();
  const auto first = static_cast<Verdict>(reader.number<std::uint8_t>());
  if (reader.bad()) co_return not_ours(who, {});
  if (version != kProtocolVersion) co_return other_version(who, version);
  if (first != Verdict::good) co_return refused(who, first, purpose);
  facts.server_nonce = co_await receive(socket, kNonceBytes);
  if (facts.server_nonce.size() < kNonceBytes) co_return not_ours(who, {});

  std::string proof = prove(token, "client", facts);
  error = co_await send(socket, std::move(proof));
  if (error && !peer_ended(error)) co_return not_sent(who, error);
  const std::string verdict = co_await receive(socket, 1);
  if (verdict.empty()) co_return not_ours(who, {});
  if (static_cast<Verdict>(verdict[0]) != Verdict::good) co_return other_token(who);
  const std::string theirs = co_await receive(socket, kProofBytes);
  if (theirs.size() < kProofBytes) co_return not_ours(who, {});
  if (!same(theirs, prove(token, "server", facts))) co_return other_token(who);
  co_return Status{};
}

/// Whether the server serves `purpose` on such a connection. If TLS is on, connections of a store
/// and of control need it, and the others must not have it.
Verdict verdict_on(std::uint8_t purpose, bool encrypted, bool has_tls) {
  if (purpose < 1 || purpose > static_cast<std::uint8_t>(Purpose::verbs)) return Verdict::purpose;
  const bool wanted = has_tls && is_for_tls(static_cast<Purpose>(purpose));
  if (wanted == encrypted) return Verdict::good;
  return wanted ? Verdict::tls_needed : Verdict::purpose;
}

template <typename Socket>
asio::awaitable<Result<Purpose>> answer_now(Socket& socket, std::string token, std::string who,
                                            bool has_tls, const std::function<void()>& proven) {
  const std::string magic = co_await receive(socket, kMagic.size());
  if (magic.starts_with(kTlsRecord)) {
    // The answer is no TLS record, by which the client sees that TLS is off here.
    std::string no = versioned() + static_cast<char>(Verdict::purpose);
    co_await refuse(socket, std::move(no));
    co_return fail(ErrorKind::mismatch, "{} asks for TLS, and this side has CCOLL_TLS=off", who);
  }
  if (magic != kMagic) {
    co_return fail(ErrorKind::corrupt, "{} sent \"{}\", which is not a hello of ccoll", who,
                   printable(magic));
  }
  const std::string head = co_await receive(socket, kVersionedBytes - kMagic.size());
  if (head.size() < sizeof kProtocolVersion) {
    co_return fail(ErrorKind::corrupt, "{} sent an incomplete hello", who);
  }
  const auto version = Reader(head).number<std::uint16_t>();
  if (version != kProtocolVersion) {
    std::string no = versioned() + static_cast<char>(Verdict::version_differs);
    co_await refuse(socket, std::move(no));
    co_return other_version(who, version);
  }
  const std::string rest = co_await receive(socket, kHelloRestBytes);
  if (rest.size() < kHelloRestBytes) {
    co_return fail(ErrorKind::corrupt, "{} sent an incomplete hello", who);
  }
  Facts facts{static_cast<std::uint8_t>(rest[0]), rest.substr(1), {}, binding(socket)};
  const Verdict verdict = verdict_on(facts.purpose, !facts.channel.empty(), has_tls);
  if (verdict != Verdict::good) {
    std::string no = versioned() + static_cast<char>(verdict);
    co_await refuse(socket, std::move(no));
    if (verdict == Verdict::tls_needed)
      co_return fail(ErrorKind::mismatch, "{} connected without TLS, which this side requires",
                     who);
    co_return fail(ErrorKind::corrupt,
                   "{} asks for purpose {}, which is not served on such a connection", who,
                   facts.purpose);
  }
  auto nonce = make_nonce();
  if (!nonce) co_return tl::unexpected(nonce.error());
  facts.server_nonce = *nonce;
  std::string challenge = versioned() + static_cast<char>(Verdict::good) + facts.server_nonce;
  std::error_code error = co_await send(socket, std::move(challenge));
  if (error && !peer_ended(error)) co_return not_sent(who, error);

  const std::string theirs = co_await receive(socket, kProofBytes);
  if (theirs.size() < kProofBytes) {
    co_return fail(ErrorKind::corrupt, "{} left before proving that it knows the token", who);
  }
  if (!same(theirs, prove(token, "client", facts))) {
    std::string no(1, static_cast<char>(Verdict::token_differs));
    co_await refuse(socket, std::move(no));
    co_return other_token(who);
  }
  proven();
  std::string yes = static_cast<char>(Verdict::good) + prove(token, "server", facts);
  error = co_await send(socket, std::move(yes));
  if (error) co_return fail(ErrorKind::peer_lost, "{} left during the hello", who);
  co_return static_cast<Purpose>(facts.purpose);
}

tl::unexpected<Failure> too_slow(const std::string& who, std::chrono::milliseconds timeout) {
  return fail(ErrorKind::timed_out, "{} did not finish the hello within {} ms", who,
              timeout.count());
}

/// Replaces `status` by TLS's reason, with the peer's name, if there is one. A client learns only
/// after its handshake that its certificate is refused.
void tell_trouble(Status& status, const std::string& who, const Stream& stream) {
  if (!status && !stream.trouble().empty())
    status = fail(ErrorKind::mismatch, "{}: {}", who, stream.trouble());
}
void tell_trouble(const Status&, const std::string&, const Local::socket&) {}

asio::awaitable<Status> secure(Local::socket&, const Credentials&, Purpose, const std::string&) {
  co_return Status{};
}

asio::awaitable<Status> secure(Stream& stream, const Credentials& credentials, Purpose purpose,
                               const std::string& who) {
  if (!credentials.tls || !is_for_tls(purpose)) co_return Status{};
  Status status = co_await stream.secure(credentials.tls, TlsSession::Role::client);
  if (!status) co_return fail(status.error().kind, "{}: {}", who, status.error().message);
  co_return status;
}

/// Peeks at the client's first byte, and shakes hands if that is TLS.
asio::awaitable<Status> expect_tls(Stream& stream, const Credentials& credentials,
                                   const std::string& who) {
  if (!credentials.tls) co_return Status{};
  char first = 0;
  std::error_code error;
  co_await stream.socket().async_receive(asio::buffer(&first, 1),
                                         asio::ip::tcp::socket::message_peek,
                                         asio::redirect_error(asio::use_awaitable, error));
  if (error || first != kTlsRecord) co_return Status{};
  Status status = co_await stream.secure(credentials.tls, TlsSession::Role::server);
  if (!status) co_return fail(status.error().kind, "{}: {}", who, status.error().message);
  co_return status;
}

asio::awaitable<Status> expect_tls(Local::socket&, const Credentials&, const std::string&) {
  co_return Status{};
}

}  // namespace

template <typename Socket>
asio::awaitable<Status> greet(Socket& socket, Credentials credentials, Purpose purpose,
                              std::chrono::milliseconds timeout) {
  const std::string who = remote(socket);
  const Deadline deadline(socket, timeout);
  Status status = co_await secure(socket, credentials, purpose, who);
  if (status) status = co_await greet_now(socket, credentials.token, purpose, who);
  if (deadline.expired()) co_return too_slow(who, timeout);
  tell_trouble(status, who, socket);
  co_return status;
}

template <typename Socket>
asio::awaitable<Result<Purpose>> answer(Socket& socket, Credentials credentials,
                                        std::chrono::milliseconds timeout,
                                        std::function<void()> proven) {
  const std::string who = remote(socket);
  const Deadline deadline(socket, timeout);
  const Status secured = co_await expect_tls(socket, credentials, who);
  Result<Purpose> purpose;
  if (secured)
    purpose =
        co_await answer_now(socket, credentials.token, who, credentials.tls != nullptr, proven);
  else
    purpose = tl::unexpected(secured.error());
  if (deadline.expired()) co_return too_slow(who, timeout);
  co_return purpose;
}

using Milliseconds = std::chrono::milliseconds;
using Proven = std::function<void()>;
template asio::awaitable<Status> greet(Stream&, Credentials, Purpose, Milliseconds);
template asio::awaitable<Status> greet(Local::socket&, Credentials, Purpose, Milliseconds);
template asio::awaitable<Result<Purpose>> answer(Stream&, Credentials, Milliseconds, Proven);
template asio::awaitable<Result<Purpose>> answer(Local::socket&, Credentials, Milliseconds, Proven);

void prepare_to_answer() try {
  static_cast<void>(prove("a token", "server", {}));
} catch (const std::bad_alloc&) {  // the first answer finds out, too
}

}  // namespace ccoll::net
