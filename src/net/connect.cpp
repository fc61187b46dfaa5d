// SPDX-License-Identifier: Apache-2.0
// The connecting side: resolve, connect, greet, and retry until a peer answers.
#include <algorithm>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <cctype>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "core/deadline.hpp"
#include "core/os_error.hpp"
#include "net/address.hpp"
#include "net/deadline.hpp"
#include "net/lack.hpp"
#include "net/listener.hpp"
#include "net/pending_handshakes.hpp"
#include "system/file_descriptor.hpp"

namespace ccoll::net {
namespace {

using asio::ip::tcp;
using namespace std::chrono_literals;
using Milliseconds = std::chrono::milliseconds;

/// Time limit of one try: a host that drops our packets must not use up all the time.
constexpr Milliseconds kTryTimeout = 10s;
constexpr Milliseconds kFirstPause = 10ms;
constexpr Milliseconds kLastTry = 100ms;
constexpr Milliseconds kLongestPause = 1s;
/// The peer of a link has been there before; if it hangs up, it lacks something for a moment.
constexpr Milliseconds kLongestPauseForLink = 200ms;
/// How long to wait for something that this process itself lacks, such as descriptors. The peer is
/// not to blame, and others must hear of it soon.

Milliseconds until(Clock::time_point deadline) {
  const auto rest = std::chrono::ceil<Milliseconds>(deadline - Clock::now());
  return std::max(rest, Milliseconds(1));
}

/// "connection refused": a system's message as part of a sentence.
std::string reason(const std::error_code& error) {
  std::string text = os_error(error);
  if (!text.empty()) text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

/// "60 s", "0.25 s".
std::string seconds(Milliseconds duration) {
  return fmt::format("{} s", static_cast<double>(duration.count()) / 1000);
}

/// A query to the name service. It cannot be interrupted, so it may outlive its caller.
struct Lookup {
  explicit Lookup(asio::io_context& context) : resolver(context), over(context) {}
  StandardStreamsTaken taken;
  tcp::resolver resolver;
  asio::steady_timer over;
  std::optional<Result<std::vector<tcp::endpoint>>> answer;
};

asio::awaitable<Result<std::vector<tcp::endpoint>>> resolve(asio::io_context& context,
                                                            HostPort address, Milliseconds limit) {
  if (const auto endpoint = numeric_endpoint(address)) co_return std::vector{*endpoint};
  const auto lookup = std::make_shared<Lookup>(context);
  lookup->over.expires_at(deadline_after(limit));
  lookup->resolver.async_resolve(
      address.host, std::to_string(address.port),
      [lookup](const std::error_code& error, const tcp::resolver::results_type& found) {
        auto& answer = lookup->answer.emplace();
        for (const auto& entry : found) answer->push_back(entry.endpoint());
        if (error) answer = fail(ErrorKind::peer_lost, "{}", reason(error));
        lookup->over.cancel();
      });
  std::error_code ignored;
  co_await lookup->over.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  if (lookup->answer) co_return std::move(*lookup->answer);
  co_return fail(ErrorKind::timed_out, "the name service gave no address of '{}' within {}",
                 address.host, seconds(limit));
}

/// Time limits of one try: first until the peer has accepted, then for the hello. A peer that
/// listens may be slow to answer; hanging up and retrying would make it slower.
struct Limits {
  Milliseconds connect;
  Milliseconds hello;
};

/// Fails with peer_lost only if nobody listens, and with timed_out if a retry may help.
asio::awaitable<Result<Stream>> try_one(asio::io_context& context, tcp::endpoint endpoint,
                                        Credentials credentials, Purpose purpose, Limits limits) {
  const OwnHello hello;
  Stream stream{tcp::socket(context)};
  tcp::socket& socket = stream.socket();
  std::error_code error;
  socket.open(endpoint.protocol(), error);
  if (!error) make_own(socket, error);
  if (error) co_return fail(ErrorKind::exhausted, "no socket: {}", reason(error));
  set_options(socket);
  {
    const Deadline limit(socket, limits.connect);
    co_await socket.async_connect(endpoint, asio::redirect_error(asio::use_awaitable, error));
    if (limit.expired()) {
      co_return fail(ErrorKind::timed_out, "no answer within {}", seconds(limits.connect));
    }
  }
  if (error == asio::error::network_unreachable && endpoint.address().is_loopback())
    co_return fail(ErrorKind::unsupported,
                   "{} cannot be reached ({}): the interface lo is down, or has lost its address; "
                   "\"ip link set lo up\" brings it up",
                   to_string(endpoint), reason(error));
  const bool nobody = error == asio::error::connection_refused;
  if (error)
    co_return fail(nobody ? ErrorKind::peer_lost : ErrorKind::timed_out, "{}", reason(error));
  // A port without a listener can be given to this very socket as its own. It has then connected to
  // itself, and would keep the port from its future listener.
  std::error_code ignored;
  if (socket.local_endpoint(ignored) == endpoint) {
    co_return fail(ErrorKind::peer_lost, "connection refused");
  }
  Status greeted = co_await greet(stream, std::move(credentials), purpose, limits.hello);
  if (greeted) co_return stream;
  // The peer listened, so it is there or was a moment ago.
  Failure failure = std::move(greeted.error());
  if (failure.kind == ErrorKind::peer_lost) failure.kind = ErrorKind::timed_out;
  co_return tl::unexpected(std::move(failure));
}

/// Failures that may pass: nobody listens yet, or the peer is just starting or ending.
bool worth_retrying(const Failure& failure) {
  return failure.kind == ErrorKind::peer_lost || failure.kind == ErrorKind::timed_out ||
         failure.kind == ErrorKind::exhausted;
}

/// Tries every endpoint of the address once; `limits` returns the time limits of the next try.
asio::awaitable<Result<Stream>> try_all(asio::io_context& context, HostPort address,
                                        Credentials credentials, Purpose purpose,
                                        std::function<Limits()> limits) {
  const auto endpoints = co_await resolve(context, address, limits().connect);
  if (!endpoints) co_return tl::unexpected(endpoints.error());
  Failure last{ErrorKind::timed_out, "the name has no address", std::nullopt};
  for (const tcp::endpoint& endpoint : *endpoints) {
    const Status allowed = check_token(endpoint, credentials.token, "connecting to");
    if (!allowed) co_return tl::unexpected(allowed.error());
    Result<Stream> stream = co_await try_one(context, endpoint, credentials, purpose, limits());
    if (stream || !worth_retrying(stream.error())) co_return stream;
    last = stream.error();
  }
  co_return tl::unexpected(last);
}

Result<HostPort> parse_target(const std::string& address) {
  auto parsed = parse_address(address);
  if (parsed && parsed->host.empty()) parsed->host = "127.0.0.1";
  return parsed;
}

/// Doubling pauses, each made up to a quarter longer or shorter by chance. Otherwise thousands of
/// ranks would connect in step.
class Pauses {
 public:
  explicit Pauses(Milliseconds longest) : longest_(longest) {}
  Milliseconds next() {
    const Milliseconds pause = pause_ * std::uniform_int_distribution<int>(75, 125)(random_) / 100;
    pause_ = std::min(pause_ * 2, longest_);
    return pause;
  }

 private:
  const Milliseconds longest_;
  Milliseconds pause_ = kFirstPause;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace

asio::awaitable<Result<Stream>> connect(std::shared_ptr<Service> service, std::string address,
                                        Credentials credentials, Purpose purpose,
                                        Milliseconds timeout, std::string who, std::string hint,
                                        std::shared_ptr<std::atomic<std::uint64_t>> retries,
                                        std::stop_token stop,
                                        std::function<void(const std::string&)> failed) {
  const auto target = parse_target(address);
  if (!target) co_return tl::unexpected(target.error());
  asio::io_context& context = service->context();
  const auto deadline = deadline_after(timeout);
  const auto limits = [deadline] {
    const Milliseconds limit = std::min(kTryTimeout, until(deadline));
    return Limits{limit, limit};
  };
  Pauses pauses(purpose == Purpose::link ? kLongestPauseForLink : kLongestPause);
  Lack lack;
  for (std::uint64_t tries = 1;; ++tries) {
    Result<Stream> stream = co_await try_all(context, *target, credentials, purpose, limits);
    if (stop.stop_requested())
      co_return fail(ErrorKind::aborted, "the connection to {} at {} is no longer needed", who,
                     address);
    if (stream || !worth_retrying(stream.error())) co_return stream;
    const Milliseconds pause = pauses.next();
    const auto now = Clock::now();
    auto next = deadline_after(pause, now);
    // The last try comes shortly before the limit.
    if (next >= deadline && deadline - now > 2 * kLastTry) next = deadline - kLastTry;
    const bool lacks = stream.error().kind == ErrorKind::exhausted;
    if (lack.lasts(stream.error(), now, next) || (lacks && next >= deadline))
      co_return fail(ErrorKind::exhausted, "no connection to {} at {}: {}", who, address,
                     stream.error().message);
    if (next >= deadline) {
      co_return fail(ErrorKind::timed_out, "no {} at {} after {} ({}, {} {}): {}", who, address,
                     seconds(timeout), stream.error().message, tries, tries == 1 ? "try" : "tries",
                     hint);
    }
    if (failed) failed(stream.error().message);
    asio::steady_timer timer(context, next);
    std::error_code ignored;
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    if (retries) retries->fetch_add(1, std::memory_order_relaxed);
  }
}

asio::awaitable<Result<Stream>> connect_once(std::shared_ptr<Service> service, std::string address,
                                             Credentials credentials, Purpose purpose,
                                             Milliseconds timeout) {
  const auto target = parse_target(address);
  if (!target) co_return tl::unexpected(target.error());
  co_return co_await try_all(service->context(), *target, std::move(credentials), purpose,
                             [timeout] {
                               return Limits{timeout, timeout};
                             });
}

}  // namespace ccoll::net
