// SPDX-License-Identifier: Apache-2.0
#include "core/net/listener.hpp"

#include <algorithm>
#include <asio/ip/v6_only.hpp>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <deque>
#include <future>

#include "core/log.hpp"
#include "core/net/accept.hpp"
#include "core/net/address.hpp"

namespace ccoll::net {
namespace {

using asio::ip::tcp;
using namespace std::chrono_literals;

constexpr auto kHelloTimeout = 10s;

/// Used on the service thread only, but for the counter. The coroutines share it; the Service is
/// not part of it, or a suspended coroutine would keep its own thread alive.
struct State {
  State(asio::io_context& c, std::string t, Listener::Handler h)
      : context(c), acceptor(c), token(std::move(t)), handler(std::move(h)) {}

  asio::io_context& context;
  tcp::acceptor acceptor;
  const std::string token;
  Listener::Handler handler;
  std::deque<tcp::socket*> greeting;  ///< in the midst of their hello, oldest first
  bool open = true;
  std::atomic<std::uint64_t> rejected{0};

  /// Strangers that connect and say nothing must not use up the process's descriptors: the one that
  /// has been silent for longest makes way for a newcomer.
  void admit(tcp::socket& socket) {
    if (greeting.size() >= waiting_connections()) {
      std::error_code ignored;
      greeting.front()->close(ignored);
      greeting.pop_front();
    }
    greeting.push_back(&socket);
  }

  void close() {
    open = false;
    std::error_code ignored;
    acceptor.close(ignored);
    for (tcp::socket* socket : greeting) socket->close(ignored);
    handler = nullptr;
  }
};

/// Counts `socket` among those in the midst of their hello while it lives.
class Admitted {
 public:
  Admitted(State& state, tcp::socket& socket) : state_(state), socket_(socket) {
    state_.admit(socket);
  }
  ~Admitted() { std::erase(state_.greeting, &socket_); }
  Admitted(const Admitted&) = delete;
  Admitted& operator=(const Admitted&) = delete;

 private:
  State& state_;
  tcp::socket& socket_;
};

asio::awaitable<void> greet_one(std::shared_ptr<State> state, tcp::socket accepted) {
  tcp::socket socket = std::move(accepted);
  set_options(socket);
  Result<Purpose> purpose;
  {
    const Admitted admitted(*state, socket);
    purpose = co_await answer(socket, state->token, kHelloTimeout);
  }
  if (!state->open) co_return;
  if (!purpose) {
    state->rejected.fetch_add(1, std::memory_order_relaxed);
    log().debug("connection refused: {}", purpose.error().message);
    co_return;
  }
  // A copy: the handler may destroy the listener, and with it the original.
  const Listener::Handler handler = state->handler;
  handler(*purpose, std::move(socket));
}

class TcpListener final : public Listener {
 public:
  TcpListener(std::shared_ptr<Service> service, std::shared_ptr<State> state)
      : service_(std::move(service)),
        state_(std::move(state)),
        endpoint_(state_->acceptor.local_endpoint()) {
    spawn(service_->context().get_executor(),
          accept_all(state_, greet_one, "a connection was dropped"),
          "no more connections are accepted");
  }

  ~TcpListener() override {
    if (service_->is_forked()) return;
    if (service_->on_service_thread()) {
      state_->close();
      return;
    }
    // Waiting makes the port free and the handler quiet when the destructor returns.
    std::promise<void> closed;
    asio::post(service_->context(), [&] {
      state_->close();
      closed.set_value();
    });
    closed.get_future().wait();
  }

  tcp::endpoint endpoint() const override { return endpoint_; }
  std::uint64_t rejected() const override {
    return state_->rejected.load(std::memory_order_relaxed);
  }

 private:
  const std::shared_ptr<Service> service_;
  const std::shared_ptr<State> state_;
  const tcp::endpoint endpoint_;
};

/// "" and ":port" are loopback.
Result<tcp::endpoint> resolve(asio::io_context& context, const std::string& address) {
  if (address.empty()) return tcp::endpoint(asio::ip::address_v4::loopback(), 0);
  auto parsed = parse_address(address);
  if (!parsed) return tl::unexpected(parsed.error());
  if (parsed->host.empty()) {
    return tcp::endpoint(asio::ip::address_v4::loopback(), parsed->port);
  }
  if (const auto endpoint = numeric_endpoint(*parsed)) return *endpoint;
  std::error_code error;
  tcp::resolver resolver(context);
  const auto found = resolver.resolve(parsed->host, std::to_string(parsed->port), error);
  if (error || found.empty()) {
    return fail(ErrorKind::invalid_argument,
                "cannot listen at {}: no address is known for '{}': {}", address, parsed->host,
                error.message());
  }
  return found.begin()->endpoint();
}

Status bind(tcp::acceptor& acceptor, const tcp::endpoint& endpoint) {
  std::error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) close_on_exec(acceptor.native_handle());
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error && endpoint.protocol() == tcp::v6()) {
    // [::] is to mean every address, also where the system's default says otherwise.
    acceptor.set_option(asio::ip::v6_only(false), error);
  }
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
  if (!error) return {};
  const bool ours = error == asio::error::no_descriptors || error == asio::error::no_memory;
  return fail(
      ours ? ErrorKind::exhausted : ErrorKind::invalid_argument, "cannot listen at {}: {}{}",
      to_string(endpoint), error.message(),
      error == asio::error::address_in_use ? "; choose another port, or 0 for a free one" : "");
}

}  // namespace

Result<std::unique_ptr<Listener>> Listener::open(std::shared_ptr<Service> service,
                                                 const std::string& address, std::string token,
                                                 Handler handler) {
  const auto endpoint = resolve(service->context(), address);
  if (!endpoint) return tl::unexpected(endpoint.error());
  CCOLL_TRY(check_token(*endpoint, token, "listening at"));
  auto state = std::make_shared<State>(service->context(), std::move(token), std::move(handler));
  CCOLL_TRY(bind(state->acceptor, *endpoint));
  return std::make_unique<TcpListener>(std::move(service), std::move(state));
}

}  // namespace ccoll::net
