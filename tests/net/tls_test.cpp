// SPDX-License-Identifier: Apache-2.0
// TLS between a listener and its clients: which are accepted, what the others hear, and that nobody
// waits for ever.
#include "net/wire/tls.hpp"
#include "ccoll/strangers.hpp"

#include <dlfcn.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/use_future.hpp>
#include <asio/write.hpp>
#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <future>
#include <thread>

#include "net/listener.hpp"
#include "net/pending_handshakes.hpp"
#include "net/wire/frame.hpp"
#include "net/wire/outbox.hpp"
#include "support/certificates.hpp"
#include "support/eventually.hpp"
#include "tls_peers.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;
using asio::ip::tcp;

namespace {

/// Checks that another thread's fork() succeeds while OpenSSL is in use.
class Forks {
 public:
  void look() {
    const auto forked = std::make_shared<std::promise<void>>();
    const auto got_through = forked->get_future();
    const std::lock_guard lock(mutex_);
    forking_.push_back(std::async(std::launch::async, [forked] {
      const pid_t child = fork();
      if (child == 0) _exit(0);
      forked->set_value();
      waitpid(child, nullptr, 0);
    }));
    looks++;
    if (got_through.wait_for(50ms) == std::future_status::ready) came++;
  }
  void end() {
    looks_on = false;
    const std::lock_guard lock(mutex_);
    forking_.clear();
  }

  std::atomic<bool> looks_on = false;
  std::atomic<int> looks = 0, came = 0;

 private:
  std::mutex mutex_;
  std::vector<std::future<void>> forking_;  // guarded by mutex_
} forks;

/// Forwards between one client and `to`, and records the bytes; cuts after a number of them.
class Tap {
 public:
  explicit Tap(const std::string& to, std::size_t cut = ~std::size_t{0}) {
    const auto colon = to.rfind(':');
    const tcp::endpoint target(asio::ip::address_v4::loopback(),
                               static_cast<std::uint16_t>(std::stoi(to.substr(colon + 1))));
    thread_ = std::thread([this, target, cut] { run(target, cut); });
  }
  ~Tap() { finish(); }
  std::string address() const { return net::to_string(acceptor_.local_endpoint()); }
  /// Waits until the client and its server have ended.
  const std::string& bytes() {
    finish();
    return bytes_;
  }

 private:
  void finish() {
    if (thread_.joinable()) thread_.join();
  }
  void run(const tcp::endpoint& target, std::size_t cut) {
    tcp::socket client = acceptor_.accept();
    tcp::socket server(context_);
    server.connect(target);
    std::thread back([&] { pass(server, client, cut); });
    pass(client, server, cut);
    back.join();
  }
  void pass(tcp::socket& from, tcp::socket& to, std::size_t cut) {
    std::error_code error;
    for (char buffer[512]; !error;) {
      const std::size_t count = from.read_some(asio::buffer(buffer), error);
      const std::lock_guard lock(mutex_);
      bytes_.append(buffer, count);
      if (bytes_.size() >= cut) break;
      if (!error) asio::write(to, asio::buffer(buffer, count), error);
    }
    std::error_code ignored;
    to.shutdown(error == asio::error::eof ? tcp::socket::shutdown_send : tcp::socket::shutdown_both,
                ignored);
    if (error != asio::error::eof) from.shutdown(tcp::socket::shutdown_both, ignored);
  }

  asio::io_context context_;
  tcp::acceptor acceptor_{context_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  std::mutex mutex_;
  std::string bytes_;  // guarded by mutex_ until the thread has ended
  std::thread thread_;
};

}  // namespace

// Replacements for OpenSSL's functions, which they call.
extern "C" int SSL_export_keying_material(SSL* ssl, unsigned char* out, std::size_t bytes,
                                          const char* label, std::size_t label_bytes,
                                          const unsigned char* context, std::size_t context_bytes,
                                          int use_context) {
  if (forks.looks_on) forks.look();
  static const auto real = reinterpret_cast<decltype(&SSL_export_keying_material)>(
      dlsym(RTLD_NEXT, "SSL_export_keying_material"));
  return real(ssl, out, bytes, label, label_bytes, context, context_bytes, use_context);
}
extern "C" const char* ERR_reason_error_string(unsigned long error) {
  if (forks.looks_on) forks.look();
  static const auto real = reinterpret_cast<decltype(&ERR_reason_error_string)>(
      dlsym(RTLD_NEXT, "ERR_reason_error_string"));
  return real(error);
}

TEST_CASE("tls: what is said comes through, of any length, by key and by certificate",
          "[core][tls]") {
  const Authority authority("authority");
  auto named = authority.issue("named");
  named.name = "rank.test";
  for (const TlsOptions& server : {kPsk, authority.issue("server"), named}) {
    const TlsOptions client = server.mode == "psk" ? kPsk : authority.issue("client");
    const Echo echo(credentials(server));
    for (const std::size_t length : {0, 1, 16384, 16385, 3'000'000}) {
      std::string text(length, 'x');
      for (std::size_t i = 0; i < length; i++) text[i] = static_cast<char>(i * 7);
      const auto back = said_back(echo.address(), credentials(client), net::Purpose::control, text);
      CAPTURE(length, server.mode, message_of(back).substr(0, 200));
      CHECK((back && *back == text));
    }
    // Data links use no TLS.
    CHECK(message_of(said_back(echo.address(), kToken, net::Purpose::link)) == "good");
    CHECK(echo.listener->rejected() == 0);
  }
}

TEST_CASE("tls: what is on the wire cannot be read, and can without", "[core][tls]") {
  const std::string secret = "a sentence that nobody else is to read";
  for (const TlsOptions& tls : {kPsk, kOff}) {
    const Echo echo(credentials(tls));
    std::string seen;
    {
      Tap tap(echo.address());
      const auto back = said_back(tap.address(), credentials(tls), net::Purpose::store, secret);
      CHECK(message_of(back) == "good");
      seen = tap.bytes();
    }
    CAPTURE(tls.mode);
    CHECK(seen.size() > 2 * secret.size());
    const bool readable = seen.find(secret) != seen.npos;
    CHECK(readable == (tls.mode == "off"));
    const bool ours = seen.find("ccoll\r\n\x01") != seen.npos;
    CHECK(ours == (tls.mode == "off"));
  }
}

TEST_CASE("tls: who does not belong is told why, at once", "[core][tls]") {
  const Authority authority("authority"), other("other");
  const TlsOptions good = authority.issue("good");
  auto foreign = other.issue("foreign");
  foreign.authority = good.authority;
  auto distrustful = authority.issue("distrustful");
  distrustful.authority = other.file("ca.pem");
  const TlsOptions old =
      authority.issue("old", {.dns = "rank.test", .from_seconds = -7200, .until_seconds = -3600});
  const TlsOptions early =
      authority.issue("early", {.dns = "rank.test", .from_seconds = 3600, .until_seconds = 7200});
  auto elsewhere = authority.issue("elsewhere");
  elsewhere.name = "other.test";

  struct Case {
    TlsOptions server;
    net::Credentials client;
    std::string expected;
  };
  const std::vector<Case> cases = {
      {kPsk, credentials(kPsk, "another"), "the token differs; give all"},
      {kPsk, credentials(kOff), "asks for TLS, and this side has CCOLL_TLS=off"},
      {kOff, credentials(kPsk),
       "it does not speak TLS (CCOLL_TLS=off), but this side has CCOLL_TLS=psk"},
      {kOff, credentials(good), "it does not speak TLS"},
      {good, credentials(kOff), "asks for TLS"},
      {good, credentials(kPsk), "it presents a certificate (CCOLL_TLS=cert)"},
      {kPsk, credentials(good), "no agreement on TLS 1.3 with CCOLL_TLS=cert"},
      {good, credentials(foreign),
       "it refuses this side's certificate CCOLL_TLS_CERT=" + foreign.certificate +
           " (tlsv1 alert unknown ca"},
      {foreign, credentials(good),
       "its certificate (CN = foreign) is refused: unable to get local "
       "issuer certificate; expected one that CCOLL_TLS_CA=" +
           good.authority + " has signed"},
      {good, credentials(distrustful), "its certificate (CN = good) is refused"},
      {good, credentials(old), "(sslv3 alert certificate expired"},
      {old, credentials(good), "its certificate (CN = old) is refused: certificate has expired"},
      {early, credentials(good), "certificate is not yet valid"},
      {good, credentials(elsewhere), "is refused: hostname mismatch; expected one that"},
      {elsewhere, credentials(good), "it refuses this side's certificate"},
      {good, credentials(authority.issue("late"), "another"), "the token differs"},
  };
  for (const Case& one : cases) {
    const Echo echo(credentials(one.server));
    const auto before = ccoll::strangers().refused;
    const auto start = std::chrono::steady_clock::now();
    const auto back = said_back(echo.address(), one.client);
    const auto took = std::chrono::steady_clock::now() - start;
    CAPTURE(one.expected, message_of(back));
    REQUIRE_FALSE(back);
    CHECK(back.error().kind == ErrorKind::mismatch);
    CHECK(back.error().message.find(one.expected) != std::string::npos);
    CHECK(back.error().message.find(echo.address()) != std::string::npos);
    CHECK(took < 5s);
    CHECK(eventually([&] { return ccoll::strangers().refused > before; }));
    CHECK(echo.came == 0);
  }
}

TEST_CASE("tls: who forks waits for OpenSSL, whose locks a child would find held", "[core][tls]") {
  const Authority authority("authority"), other("other");
  const TlsOptions good = authority.issue("good");
  auto foreign = other.issue("foreign");
  foreign.authority = good.authority;
  const Echo echo(credentials(good));
  const auto looks_at = [&](const TlsOptions& client) {
    forks.looks = 0;
    forks.looks_on = true;
    const auto back = said_back(echo.address(), credentials(client));
    forks.end();
    return back;
  };
  // Both sides export the keys to which the proofs are bound.
  CHECK(looks_at(good));
  CHECK(forks.looks == 2);
  // The client hears that its certificate is refused only after its own handshake.
  CHECK_FALSE(looks_at(foreign));
  CHECK(forks.looks > 0);
  CHECK(forks.came == 0);
}

TEST_CASE("tls: nobody who forks waits for files", "[core][tls]") {
  const Authority authority("authority");
  const TlsOptions good = authority.issue("good");
  for (const auto file : {&TlsOptions::certificate, &TlsOptions::authority}) {
    // Opening the pipe blocks until a writer opens it.
    auto slow = good;
    slow.*file += ".pipe";
    REQUIRE(::mkfifo((slow.*file).c_str(), 0600) == 0);
    auto made = std::async(std::launch::async,
                           [&] { return message_of(net::Credentials::make(kToken, slow)); });
    REQUIRE(made.wait_for(50ms) == std::future_status::timeout);
    auto forked = std::async(std::launch::async, [] {
      const pid_t child = fork();
      if (child == 0) _exit(0);
      waitpid(child, nullptr, 0);
    });
    CHECK(forked.wait_for(5s) == std::future_status::ready);
    std::ofstream(slow.*file) << std::ifstream(good.*file).rdbuf();
    CHECK(made.get() == "good");
  }
}

TEST_CASE("tls: a connection that is cut anywhere in its handshake fails, and soon",
          "[core][tls]") {
  const Echo echo(credentials(kPsk));
  std::size_t whole = 0;
  {
    Tap tap(echo.address());
    CHECK(message_of(said_back(tap.address(), credentials(kPsk))) == "good");
    whole = tap.bytes().size();
  }
  // The hello takes some 200 bytes of it, and the frames and ends less than 300.
  for (std::size_t cut = 1; cut + 300 < whole; cut += 97) {
    Tap tap(echo.address(), cut);
    const auto start = std::chrono::steady_clock::now();
    const auto back = said_back(tap.address(), credentials(kPsk));
    CAPTURE(cut, whole);
    CHECK_FALSE(back);
    CHECK(std::chrono::steady_clock::now() - start < 5s);
  }
}

TEST_CASE("tls: what cannot be encrypted ends the connection, and reading says why",
          "[core][tls]") {
  const auto service = net::Service::shared();
  std::vector<net::Stream> silent;  // nobody reads or writes at the other end
  const auto listener =
      net::Listener::open(service, "", credentials(kPsk), [&](net::Purpose, net::Stream stream) {
        silent.push_back(std::move(stream));
      }).value();
  const auto read = [](std::shared_ptr<net::Stream> stream,
                       std::promise<std::string>& told) -> asio::awaitable<void> {
    const auto back = co_await net::read_frame(*stream, 1000);
    told.set_value(back ? "a frame" : back.error().message);
  };
  const auto write = [](std::shared_ptr<net::Stream> stream) {
    // After its own end TLS encrypts nothing more.
    stream->finish();
    net::Outbox(*stream, 1000, [](const Failure&) {}).send("more");
  };
  const auto connect = [](std::shared_ptr<net::Service> on, std::string address,
                          std::promise<net::Stream>& made) -> asio::awaitable<void> {
    auto connected =
        co_await net::connect_once(on, address, credentials(kPsk), net::Purpose::store, 20s);
    made.set_value(std::move(connected.value()));
  };
  std::promise<net::Stream> connected;
  asio::co_spawn(service->context(),
                 connect(service, net::to_string(listener->endpoint()), connected), asio::detached);
  const auto stream = std::make_shared<net::Stream>(connected.get_future().get());
  std::promise<std::string> outcome;
  auto told = outcome.get_future();
  asio::co_spawn(service->context(), read(stream, outcome), asio::detached);
  asio::post(service->context(), [&] { write(stream); });
  REQUIRE(told.wait_for(20s) == std::future_status::ready);
  CHECK_THAT(told.get(), Catch::StartsWith("the connection broke: TLS: "));
}

TEST_CASE("tls: who is slow in its handshake is dropped like any stranger", "[core][tls]") {
  const auto tls = credentials(kPsk);
  asio::io_context context;
  tcp::acceptor acceptor(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  tcp::socket loris(context), accepted(context);
  loris.connect(acceptor.local_endpoint());
  acceptor.accept(accepted);
  net::Stream stream(std::move(accepted));
  auto answered = asio::co_spawn(context, net::answer(stream, tls, 300ms), asio::use_future);
  const auto start = std::chrono::steady_clock::now();
  std::thread serving([&] { context.run(); });
  // The header of a long TLS record, followed by single bytes.
  const std::string head("\x16\x03\x01\x20\x00\x01\x00\x1f\xfc", 9);
  std::error_code closed;
  for (std::size_t i = 0; !closed && i < 400; i++) {
    const char byte = i < head.size() ? head[i] : 'x';
    asio::write(loris, asio::buffer(&byte, 1), closed);
    std::this_thread::sleep_for(20ms);
  }
  const auto outcome = answered.get();
  serving.join();
  CHECK(message_of(outcome).find("did not finish the hello within 300 ms") != std::string::npos);
  CHECK(std::chrono::steady_clock::now() - start < 8s);
}

TEST_CASE("tls: strangers in their handshakes make way for newcomers", "[core][tls]") {
  const Echo echo(credentials(kPsk));
  const auto before = ccoll::strangers().evicted;
  asio::io_context context;
  std::vector<tcp::socket> halves;
  const std::string head("\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 9);
  for (std::size_t i = 0; i < net::PendingHandshakes::limit() + 20; i++) {
    halves.emplace_back(context);
    halves.back().connect(echo.listener->endpoint());
    std::error_code ignored;
    asio::write(halves.back(), asio::buffer(head), ignored);
  }
  CHECK(message_of(said_back(echo.address(), credentials(kPsk))) == "good");
  CHECK(eventually([&] { return ccoll::strangers().evicted >= before + 20; }));
}
