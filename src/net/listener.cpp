// SPDX-License-Identifier: Apache-2.0
#include "net/listener.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/ip/v6_only.hpp>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <random>

#include "core/os_error.hpp"
#include "net/accept.hpp"
#include "net/address.hpp"
#include "net/handshake.hpp"
#include "net/pending_handshakes.hpp"
#include "net/silenceable.hpp"
#include "system/file_descriptor.hpp"
#include "system/port_range.hpp"

namespace ccoll::net {
namespace {

using asio::ip::tcp;
using namespace std::chrono_literals;

constexpr auto kHelloTimeout = 10s;

/// Used only on the service thread, except for the counter and to silence the handler. The
/// coroutines share it. It does not hold the Service, or a suspended coroutine would keep its own
/// thread alive.
struct State {
  State(tcp::acceptor a, Credentials c, Listener::Handler h)
      : acceptor(std::move(a)),
        pending_handshakes(fmt::format("tcp://{}", to_string(acceptor.local_endpoint()))),
        credentials(std::move(c)),
        handler(std::move(h)) {}

  tcp::acceptor acceptor;
  PendingHandshakes pending_handshakes;
  const Credentials credentials;
  Silenceable<Purpose, Stream> handler;
  bool open = true;
  std::atomic<std::uint64_t> rejected{0};

  void close() { stop_accepting(*this); }
};

asio::awaitable<void> greet_one(std::shared_ptr<State> state, tcp::socket accepted) {
  Stream stream(std::move(accepted));
  set_options(stream.socket());
  const auto purpose =
      co_await answer_guest(state->pending_handshakes, stream, state->credentials, kHelloTimeout);
  if (!state->open) co_return;
  if (!purpose) {
    state->pending_handshakes.refused(purpose.error());
    state->rejected.store(state->pending_handshakes.refusals(), std::memory_order_relaxed);
    co_return;
  }
  state->handler.call(*purpose, std::move(stream));
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

  ~TcpListener() override { close_entrance(*service_, state_); }

  tcp::endpoint endpoint() const override { return endpoint_; }
  std::uint64_t rejected() const override {
    return state_->rejected.load(std::memory_order_relaxed);
  }

 private:
  const std::shared_ptr<Service> service_;
  const std::shared_ptr<State> state_;
  const tcp::endpoint endpoint_;
};

/// The address to listen at; "" and ":port" mean loopback.
Result<tcp::endpoint> resolve(asio::io_context& context, const std::string& address) {
  if (address.empty()) return tcp::endpoint(asio::ip::address_v4::loopback(), 0);
  auto parsed = parse_address(address);
  if (!parsed) return tl::unexpected(parsed.error());
  if (parsed->host.empty()) {
    return tcp::endpoint(asio::ip::address_v4::loopback(), parsed->port);
  }
  if (const auto endpoint = numeric_endpoint(*parsed)) return *endpoint;
  std::error_code error;
  const StandardStreamsTaken taken;
  tcp::resolver resolver(context);
  const auto found = resolver.resolve(parsed->host, std::to_string(parsed->port), error);
  if (error || found.empty()) {
    return fail(ErrorKind::invalid_argument,
                "cannot listen at {}: no address is known for '{}': {}", address, parsed->host,
                error.message());
  }
  return found.begin()->endpoint();
}

/// The window with which accepted connections begin: what a link writes at a time
/// (transport/tcp/link.hpp).
constexpr int kFirstWindow = 512 << 10;

/// Lets connections begin with that window. The system would grant 64 KiB, and more only after some
/// round trips, which a first call would wait for. Linux makes the receive buffer large enough for
/// a low-water mark, and accepted sockets inherit it. SO_RCVBUF would fix its size. Must come
/// before listen(). Without the second and third option the mark would stay, and the window never
/// grow.
void open_wide(tcp::acceptor& acceptor) {
  const auto set = [&](int level, int option, int value) {
    setsockopt(acceptor.native_handle(), level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_RCVLOWAT, kFirstWindow);
  set(SOL_SOCKET, SO_RCVLOWAT, 1);
  set(IPPROTO_TCP, TCP_WINDOW_CLAMP, 0);
}

std::error_code bind(tcp::acceptor& acceptor, const tcp::endpoint& endpoint) {
  std::error_code error, ignored;
  acceptor.close(ignored);
  acceptor.open(endpoint.protocol(), error);
  if (!error) make_own(acceptor, error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error && endpoint.protocol() == tcp::v6()) {
    // [::] means every address, even if the system's default differs.
    acceptor.set_option(asio::ip::v6_only(false), error);
  }
  if (!error) open_wide(acceptor);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
  return error;
}

Status told(const tcp::endpoint& endpoint, const std::error_code& error) {
  if (!error) return {};
  const bool ours = error == asio::error::no_descriptors || error == asio::error::no_memory;
  return fail(
      ours ? ErrorKind::exhausted : ErrorKind::invalid_argument, "cannot listen at {}: {}{}",
      to_string(endpoint), os_error(error),
      error == asio::error::address_in_use ? "; choose another port, or 0 for a free one" : "");
}

/// Binds to a free port of the range, from a random one on, so that the ranks of a host seldom try
/// the same one.
Status bind(tcp::acceptor& acceptor, tcp::endpoint endpoint, PortRange range) {
  const std::uint32_t count = range.last - range.first + 1u;
  const std::uint32_t start = std::random_device{}() % count;
  for (std::uint32_t i = 0; i < count; i++) {
    endpoint.port(static_cast<std::uint16_t>(range.first + (start + i) % count));
    const auto error = bind(acceptor, endpoint);
    if (error != asio::error::address_in_use) return told(endpoint, error);
  }
  return fail(
      ErrorKind::exhausted,
      "cannot listen at {}: none of the ports {} to {} is free (CCOLL_PORT_RANGE): each rank "
      "of a host needs one, and the store another",
      endpoint.address().to_string(), range.first, range.last);
}

}  // namespace

Result<std::unique_ptr<Listener>> Listener::open(std::shared_ptr<Service> service,
                                                 const std::string& address,
                                                 Credentials credentials, Handler handler) {
  const auto endpoint = resolve(service->context(), address);
  if (!endpoint) return tl::unexpected(endpoint.error());
  CCOLL_TRY(check_token(*endpoint, credentials.token, "listening at"));
  const auto range = port_range();
  if (!range) return tl::unexpected(range.error());
  tcp::acceptor acceptor(service->context());
  if (endpoint->port() == 0 && *range)
    CCOLL_TRY(bind(acceptor, *endpoint, **range));
  else
    CCOLL_TRY(told(*endpoint, bind(acceptor, *endpoint)));
  auto state =
      std::make_shared<State>(std::move(acceptor), std::move(credentials), std::move(handler));
  asio::post(service->context(), prepare_to_answer);
  return std::make_unique<TcpListener>(std::move(service), std::move(state));
}

}  // namespace ccoll::net
