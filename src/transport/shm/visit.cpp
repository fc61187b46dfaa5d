// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/visit.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>

#include "core/os_error.hpp"
#include "net/address.hpp"
#include "net/pending_handshakes.hpp"

namespace ccoll::shm {

Result<pid_t> process_of_user(Socket& socket, std::string_view who) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return fail(ErrorKind::peer_lost, "SO_PEERCRED: {}", std::strerror(errno));
  if (peer.uid == geteuid()) return peer.pid;
  return fail(ErrorKind::unsupported, "{} runs as user {}, this rank as user {}", who, peer.uid,
              geteuid());
}

namespace {

using Clock = std::chrono::steady_clock;

/// How long to repeat a hello during which the peer hangs up. A peer short of descriptors drops the
/// oldest hello for a newer one.
constexpr std::chrono::seconds kDroppedHello{2};

/// Retries while nobody listens: a peer that is behind will open its door.
asio::awaitable<Status> connect(Socket& socket, const Protocol::endpoint& door,
                                const DoorWait& until) {
  using namespace std::chrono_literals;
  asio::steady_timer pause(socket.get_executor());
  const bool may_come = Clock::now() < until.end;
  for (auto wait = 1ms;; wait = std::min(2 * wait, 100ms)) {
    std::error_code code, ignored;
    socket.open(Protocol(), code);
    if (!code) net::make_own(socket, code);
    if (code) co_return fail(ErrorKind::exhausted, "no Unix socket: {}", os_error(code));
    co_await socket.async_connect(door, asio::redirect_error(asio::use_awaitable, code));
    if (!code) co_return Status{};
    if (code != asio::error::connection_refused)
      co_return fail(ErrorKind::peer_lost, "{}", os_error(code));
    if (Clock::now() >= until.end || !until.wanted()) break;
    socket.close(ignored);
    pause.expires_after(wait);
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  if (!may_come) co_return fail(ErrorKind::peer_lost, "no process listens there any more");
  co_return fail(ErrorKind::timed_out, "it did not finish its start-up in time");
}

}  // namespace

asio::awaitable<Status> enter(Socket& socket, Protocol::endpoint door, std::string token,
                              net::Purpose purpose, DoorWait wait) {
  using namespace std::chrono_literals;
  const net::OwnHello hello;
  const auto retry_until = Clock::now() + kDroppedHello;
  asio::steady_timer pause(socket.get_executor());
  DoorWait until = wait;
  for (auto delay = 1ms;; delay = std::min(2 * delay, 100ms)) {
    auto there = co_await connect(socket, door, until);
    if (!there) co_return there;
    if (auto same = process_of_user(socket, "it"); !same) co_return tl::unexpected(same.error());
    using std::chrono::milliseconds;
    const auto left = std::chrono::duration_cast<milliseconds>(wait.end - Clock::now());
    auto greeted =
        co_await net::greet(socket, token, purpose, std::max<milliseconds>(kPatience, left));
    const bool was_dropped = !greeted && greeted.error().kind == ErrorKind::peer_lost;
    if (!was_dropped || Clock::now() >= retry_until || !wait.wanted()) co_return greeted;
    // It has listened, so a peer that does not any more has gone.
    until.end = std::min(until.end, Clock::now());
    std::error_code ignored;
    socket.close(ignored);
    pause.expires_after(delay);
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

asio::awaitable<Status> send(Socket& socket, std::string bytes, std::vector<int> descriptors,
                             std::function<bool()> go_on) {
  for (asio::steady_timer pause(socket.get_executor());;) {
    auto status = send_with_descriptors(socket.native_handle(), bytes, descriptors);
    if (status || status.error().kind != ErrorKind::exhausted || !go_on()) co_return status;
    std::error_code ignored;
    pause.expires_after(std::chrono::milliseconds(10));
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

asio::awaitable<Result<WithDescriptors>> receive(Socket& socket, std::size_t bytes) {
  for (;;) {
    std::error_code code;
    co_await socket.async_wait(Socket::wait_read, asio::redirect_error(asio::use_awaitable, code));
    if (code) co_return fail(ErrorKind::peer_lost, "{}", code.message());
    auto came = receive_with_descriptors(socket.native_handle(), bytes);
    // A socket may be reported ready and have no data.
    if (came || came.error().kind != ErrorKind::exhausted) co_return came;
  }
}

asio::awaitable<Result<std::string>> receive_exactly(Socket& socket, std::size_t bytes) {
  std::string text(bytes, '\0');
  std::error_code code;
  co_await asio::async_read(socket, asio::buffer(text),
                            asio::redirect_error(asio::use_awaitable, code));
  if (code == asio::error::eof)
    co_return fail(ErrorKind::peer_lost, "the peer closed the connection");
  if (code) co_return fail(ErrorKind::peer_lost, "{}", code.message());
  co_return text;
}

}  // namespace ccoll::shm
