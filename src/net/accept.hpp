// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Accepting connections, whatever the sockets, for as long as someone listens.

#include <asio/awaitable.hpp>
#include <asio/error.hpp>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <chrono>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "core/os_error.hpp"
#include "net/address.hpp"
#include "net/service.hpp"
#include "system/log.hpp"

namespace ccoll::net {

/// How long accepting rests when the process or system has no descriptor or memory left.
inline constexpr std::chrono::milliseconds kExhaustedPause{50};

/// Runs `serve` for each connection that `state->acceptor` takes, until `state->open` is false and
/// the acceptor closed; `serve` makes each a Guest of `state->pending_handshakes` until its hello
/// is over. On the service thread. `what`: for the log, if one throws.
template <typename State, typename Serve>
asio::awaitable<void> accept_all(std::shared_ptr<State> state, Serve serve, std::string what) {
  using Socket = typename decltype(state->acceptor)::protocol_type::socket;
  bool complained = false, spent = false;
  while (state->open) {
    // Not where it has just been given up for the one that is to be accepted.
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
    // Whoever serves it finds out whether it can stay (Spare).
    spent = error == asio::error::no_descriptors && state->pending_handshakes.spare().spend();
    if (spent) continue;
    // One that has yet to say its hello makes way before a newcomer has to wait.
    if (error == asio::error::no_descriptors && state->pending_handshakes.evict_oldest()) continue;
    // No descriptors (EMFILE, ENFILE) or memory: the connection stays in the backlog, and trying
    // again at once would burn a core until someone closes something.
    if (!std::exchange(complained, true))
      log().warn("cannot accept connections: {}; trying on", os_error(error));
    asio::steady_timer pause(state->acceptor.get_executor(), kExhaustedPause);
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
}

/// What accept_all does ends soon, and so does every hello at `state`. On the service thread.
template <typename State>
void stop_accepting(State& state) {
  state.open = false;
  std::error_code ignored;
  state.acceptor.close(ignored);
  state.pending_handshakes.close_all();
}

/// For the destructor of who began accept_all: `state->handler`, a Silenceable, is silent when it
/// returns, and `state->close()` has been called on the service thread; if that is held
/// (Service::catch_up), it will be. A forked child leaves all to its parent.
template <typename State>
void close_entrance(Service& service, const std::shared_ptr<State>& state) {
  if (service.is_forked()) return;
  state->handler.silence(service);
  if (service.on_service_thread()) return state->close();
  asio::post(service.context(), [state] { state->close(); });
  service.catch_up();
}

}  // namespace ccoll::net
