// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Accepts connections on sockets of any kind for as long as the listener is open.

#include <poll.h>

#include <asio/awaitable.hpp>
#include <asio/error.hpp>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/socket_base.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "core/os_error.hpp"
#include "net/address.hpp"
#include "net/handshake.hpp"
#include "net/pending_handshakes.hpp"
#include "net/service.hpp"
#include "system/log.hpp"

namespace ccoll::net {

/// The pause in accepting when the process or system has no descriptor or memory left.
inline constexpr std::chrono::milliseconds kExhaustedPause{50};

/// answer() to a Guest of `pending_handshakes`. The client stops being one when it has proven that
/// it knows the token: a client that was told that it is in never makes way for a stranger.
template <typename Socket>
asio::awaitable<Result<Purpose>> answer_guest(PendingHandshakes& pending_handshakes, Socket& socket,
                                              Credentials credentials,
                                              std::chrono::milliseconds timeout) {
  std::optional<PendingHandshakes::Guest> guest(std::in_place, pending_handshakes, socket);
  std::function<void()> leave = [&guest] { guest.reset(); };
  co_return co_await answer(socket, std::move(credentials), timeout, std::move(leave));
}

/// Whether a connection waits there to be accepted.
template <typename Acceptor>
bool is_awaited(Acceptor& acceptor) {
  pollfd watched{acceptor.native_handle(), POLLIN, 0};
  return ::poll(&watched, 1, 0) != 0;
}

/// Runs `serve` for each connection that `state->acceptor` takes, until `state->open` is false and
/// the acceptor is closed. `serve` begins with answer_guest. On the service thread. `what` names it
/// in the log if one throws.
template <typename State, typename Serve>
asio::awaitable<void> accept_all(std::shared_ptr<State> state, Serve serve, std::string what) {
  using Socket = typename decltype(state->acceptor)::protocol_type::socket;
  bool complained = false, spent = false;
  while (state->open) {
    // Do not restore the spare if it was just spent on the connection to be accepted next.
    if (!std::exchange(spent, false)) state->pending_handshakes.spare().restore();
    std::error_code error;
    Socket socket(state->acceptor.get_executor());
    co_await state->acceptor.async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
    if (!state->open) co_return;
    if (!error) make_own(socket, error);
    if (!error) {
      try {
        spawn(state->acceptor.get_executor(), serve(state, std::move(socket)), what);
        continue;
      } catch (const std::bad_alloc&) {
        error = asio::error::no_memory;
      }
    }
    if (error == asio::error::connection_aborted || error == asio::error::interrupted) continue;
    // Linux says so before it looks for a connection. Nobody needs to make way for none.
    if (error == asio::error::no_descriptors && !is_awaited(state->acceptor)) {
      co_await state->acceptor.async_wait(asio::socket_base::wait_read,
                                          asio::redirect_error(asio::use_awaitable, error));
      continue;
    }
    // The code that serves it finds out whether it can stay (Spare).
    spent = error == asio::error::no_descriptors && state->pending_handshakes.spare().spend();
    if (spent) continue;
    if (error == asio::error::no_descriptors) state->pending_handshakes.spare().starve();
    // A connection that has not said its hello makes way before a new one has to wait.
    if (error == asio::error::no_descriptors && state->pending_handshakes.evict_oldest()) continue;
    // If descriptors (EMFILE, ENFILE) or memory are exhausted, the connection stays in the backlog.
    // Trying again at once would burn a core until some are released.
    if (!std::exchange(complained, true))
      log().warn("cannot accept connections: {}; ccoll keeps trying", os_error(error));
    asio::steady_timer pause(state->acceptor.get_executor(), kExhaustedPause);
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
}

/// Ends accept_all soon, and every hello at `state`. On the service thread.
template <typename State>
void stop_accepting(State& state) {
  state.open = false;
  std::error_code ignored;
  state.acceptor.close(ignored);
  state.pending_handshakes.close_all();
}

/// For the destructor of the object that began accept_all. On return `state->handler`, a
/// Silenceable, is silent. `state->close()` has run on the service thread, or will run if that
/// thread is held (Service::catch_up). A forked child leaves all to its parent.
template <typename State>
void close_entrance(Service& service, const std::shared_ptr<State>& state) {
  if (service.is_forked()) return;
  state->handler.silence(service);
  if (service.on_service_thread()) return state->close();
  asio::post(service.context(), [state] { state->close(); });
  service.catch_up();
}

}  // namespace ccoll::net
