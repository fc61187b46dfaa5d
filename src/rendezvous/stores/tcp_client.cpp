// SPDX-License-Identifier: Apache-2.0
// The TCP store's client: one connection, with requests of any number of threads in flight.
#include <algorithm>
#include <asio/post.hpp>
#include <functional>
#include <limits>
#include <optional>
#include <unordered_map>

#include "core/deadline.hpp"
#include "net/address.hpp"
#include "net/listener.hpp"
#include "net/wire/frame.hpp"
#include "net/wire/outbox.hpp"
#include "rendezvous/stores/backend.hpp"
#include "rendezvous/stores/tcp_options.hpp"
#include "rendezvous/stores/tcp_store.hpp"
#include "system/locks.hpp"
#include "system/log.hpp"

namespace ccoll {
namespace rendezvous {
namespace {

using Milliseconds = std::chrono::milliseconds;

/// How long a caller that timed out waits for the server to confirm that it does not count.
constexpr Milliseconds kGrace{1000};

/// The queue needs no limit: each caller waits for the answer to its one request.
constexpr std::size_t kUnbounded = std::numeric_limits<std::size_t>::max();

/// Its owner and its reading coroutine keep it; it never keeps the service.
class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(asio::io_context& context, net::Stream stream, std::string name)
      : context_(context),
        stream_(std::move(stream)),
        outbox_(stream_, kUnbounded, [this](const Failure& failure) { lose(failure.message); }),
        name_(std::move(name)) {}

  /// From any thread. The slot is filled exactly once, unless it is forgotten first.
  void send(const std::shared_ptr<Slot>& slot, std::uint64_t id, const Request& request) {
    {
      const auto requests = requests_.lock();
      if (requests->lost) {
        slot->fill(tl::unexpected(*requests->lost));
        return;
      }
      requests->slots.emplace(id, slot);
    }
    post(encode(id, request));
  }
  /// Asks the server to answer request `id` now, even if that has to wait.
  void cancel(std::uint64_t id) {
    post(encode(0, Request{Op::cancel, {}, {}, static_cast<std::int64_t>(id)}));
  }
  void forget(std::uint64_t id) { requests_.lock()->slots.erase(id); }
  std::uint64_t next_id() { return ++requests_.lock()->last_id; }
  /// From any thread: closes the connection soon.
  void close() {
    asio::post(context_, [self = shared_from_this()] {
      std::error_code ignored;
      self->stream_.close(ignored);
    });
  }

  /// Delivers all answers. After it returns, or throws, it delivers nothing.
  static asio::awaitable<void> read_all(std::shared_ptr<Connection> self) {
    for (;;) {
      const Result<std::string> frame = co_await net::read_frame(self->stream_, kMaxFrameBytes);
      if (!frame) {
        const auto& trouble = self->outbox_.trouble();
        self->lose(trouble.empty() ? frame.error().message : trouble);
        break;
      }
      auto response = decode_response(*frame);
      if (!response) {
        self->lose(response.error().message);
        break;
      }
      self->deliver(response->id, std::move(response->content));
    }
  }

  void lose(const std::string& why) {
    std::error_code ignored;
    stream_.close(ignored);
    std::unordered_map<std::uint64_t, std::shared_ptr<Slot>> slots;
    const Failure failure{ErrorKind::peer_lost,
                          fmt::format("the store at {} was lost: {}; is the rank or program that "
                                      "serves it still running?",
                                      name_, why),
                          std::nullopt};
    requests_.with([&](Requests& requests) {
      requests.lost = failure;
      slots.swap(requests.slots);
    });
    for (const auto& [id, slot] : slots) slot->fill(tl::unexpected(failure));
  }

 private:
  struct Requests {
    std::uint64_t last_id = 0;
    std::optional<Failure> lost;
    std::unordered_map<std::uint64_t, std::shared_ptr<Slot>> slots;
  };

  void post(const std::string& body) {
    asio::post(context_, [self = shared_from_this(), frame = net::to_frame(body)]() mutable {
      try {
        self->outbox_.send(std::move(frame));
      } catch (...) {
        self->lose(failure_of(std::current_exception()).message);
      }
    });
  }

  void deliver(std::uint64_t id, Result<Response> response) {
    std::shared_ptr<Slot> slot;
    {
      const auto requests = requests_.lock();
      const auto found = requests->slots.find(id);
      if (found == requests->slots.end()) return;
      slot = std::move(found->second);
      requests->slots.erase(found);
    }
    slot->fill(std::move(response));
  }

  asio::io_context& context_;
  net::Stream stream_;  // owner: the service thread
  net::Outbox outbox_;  // owner: the service thread
  const std::string name_;
  Guarded<Requests> requests_;
};

class TcpBackend final : public Backend {
 public:
  TcpBackend(std::shared_ptr<net::Service> service, std::shared_ptr<Connection> connection,
             std::string name)
      : service_(std::move(service)), connection_(std::move(connection)), name_(std::move(name)) {}
  ~TcpBackend() override {
    if (!service_->is_forked()) connection_->close();
  }

  std::string address() const override { return name_; }
  Result<Response> call(Request request, Milliseconds timeout) override {
    if (service_->on_service_thread()) {
      return fail(ErrorKind::internal, "store {}: it would block the service thread",
                  to_string(request.op));
    }
    const auto deadline = deadline_after(timeout);
    const std::uint64_t id = connection_->next_id();
    const auto slot = std::make_shared<Slot>();
    connection_->send(slot, id, request);
    if (auto response = slot->wait_patiently(deadline)) {
      if (!*response && response->error().kind == ErrorKind::aborted) connection_->cancel(id);
      return std::move(*response);
    }
    // The server decides whether this caller counted: an answer may be on its way.
    connection_->cancel(id);
    auto response = slot->wait_until(deadline_after(kGrace));
    connection_->forget(id);
    if (!response) {
      return fail(ErrorKind::timed_out, "store {}: no answer from the store at {} within {}",
                  to_string(request.op), name_, seconds(timeout));
    }
    if (!*response && response->error().kind == ErrorKind::timed_out) {
      response->error().message += fmt::format(" after {} (store at {})", seconds(timeout), name_);
    }
    return std::move(*response);
  }

 private:
  // The connection is destroyed first: its socket belongs to the service.
  const std::shared_ptr<net::Service> service_;
  const std::shared_ptr<Connection> connection_;
  const std::string name_;
};

/// The connection, and why the last try for it failed.
class Connected : public Answer<std::shared_ptr<Connection>> {
 public:
  void try_failed(const std::string& why) { *reason_.lock() = why; }
  /// " (connection refused)"; empty while no try has failed.
  std::string reason() const {
    const auto reason = reason_.lock();
    return reason->empty() ? "" : fmt::format(" ({})", *reason);
  }

 private:
  Guarded<std::string> reason_;
};

asio::awaitable<void> start(std::shared_ptr<net::Service> service, std::string address,
                            net::Credentials credentials, Milliseconds timeout, std::string hint,
                            std::stop_token stop, std::shared_ptr<Connected> connected) {
  // A variable: g++ 12 destroys a lambda twice that is an argument of what is awaited.
  std::function<void(const std::string&)> failed = [connected](const std::string& why) {
    connected->try_failed(why);
  };
  Result<net::Stream> stream =
      co_await net::connect(service, address, std::move(credentials), net::Purpose::store, timeout,
                            "store", std::move(hint), nullptr, stop, std::move(failed));
  if (!stream) {
    connected->fill(tl::unexpected(stream.error()));
    co_return;
  }
  keep_alive(stream->socket());
  auto connection = std::make_shared<Connection>(service->context(), std::move(*stream), address);
  net::spawn(service->context().get_executor(), Connection::read_all(connection), "store",
             [connection](const Failure& failure) { connection->lose(failure.message); });
  // The thread that waited for it may have left.
  if (!connected->fill(connection)) connection->close();
}

/// Warns at intervals while the store has not answered, but not if the time limit is near.
std::optional<Result<std::shared_ptr<Connection>>> await_patiently(Connected& connected,
                                                                   const std::string& address,
                                                                   const std::string& hint,
                                                                   Milliseconds timeout) {
  // Later than any answer: the service thread may have no memory even to send a failure.
  constexpr std::chrono::seconds kSlack{10};
  const auto began = std::chrono::steady_clock::now();
  const auto deadline = deadline_after(timeout, began) + kSlack;
  const auto every = Patience::of_thread().warn_after;
  for (auto told = Patience::of_thread().first_warning();; told += every) {
    const bool tells =
        every.count() > 0 && told < timeout - Patience::of_thread().first_warning() / 4;
    auto connection = connected.wait_patiently(tells ? deadline_after(told, began) : deadline);
    if (connection || !tells) return connection;
    log().warn("start-up: no store at {} for {}{}: {}", address, seconds(told), connected.reason(),
               hint);
  }
}

/// Tells the server the client's job, since the server may be another job's.
Status say_job(Backend& backend, const JobClaim& claim, Milliseconds timeout) {
  Request request{Op::open, {claim.job}, {}, static_cast<std::int64_t>(claim.could_not_listen)};
  CCOLL_TRY(check_request(request));
  const auto answer = backend.call(std::move(request), timeout);
  if (answer) return {};
  if (answer.error().kind != ErrorKind::mismatch) return tl::unexpected(answer.error());
  return fail(ErrorKind::mismatch,
              "the store at {} {}; give each job a port of its own (MASTER_PORT, CCOLL_PORT or "
              "CCOLL_STORE)",
              backend.address(), answer.error().message);
}

}  // namespace

Result<std::shared_ptr<Store>> connect_store(const std::string& address, const std::string& token,
                                             Milliseconds timeout, const TlsOptions& tls,
                                             const std::optional<JobClaim>& claim,
                                             const std::string& hint) {
  const auto deadline = deadline_after(timeout);
  const auto credentials = net::Credentials::make(token, tls);
  if (!credentials) return tl::unexpected(credentials.error());
  auto service = net::Service::shared();
  if (service->on_service_thread()) {
    return fail(ErrorKind::internal, "connecting to a store would block the service thread");
  }
  const auto connected = std::make_shared<Connected>();
  net::spawn(
      service->context().get_executor(),
      start(service, address, *credentials, timeout, hint, Patience::of_thread().stop, connected),
      "store", [connected, address](const Failure& failure) {
        connected->fill(
            fail(failure.kind, "no connection to the store at {}: {}", address, failure.message));
      });
  auto answer = await_patiently(*connected, address, hint, timeout);
  if (!answer)
    return fail(ErrorKind::exhausted, "no connection to the store at {}: its service has no memory",
                address);
  auto& connection = *answer;
  if (!connection) return tl::unexpected(connection.error());
  auto backend = std::make_unique<TcpBackend>(std::move(service), std::move(*connection), address);
  const auto left = deadline - std::chrono::steady_clock::now();
  if (claim) CCOLL_TRY(say_job(*backend, *claim, std::chrono::ceil<Milliseconds>(left)));
  return make_store(std::move(backend));
}

}  // namespace rendezvous

std::shared_ptr<Store> connect_tcp_store(const std::string& address, const std::string& token,
                                         Store::Timeout timeout, const TlsOptions& tls) {
  return value_or_throw(rendezvous::connect_store(address, token, timeout, tls, std::nullopt));
}

}  // namespace ccoll
