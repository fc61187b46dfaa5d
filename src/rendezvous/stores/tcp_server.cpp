// SPDX-License-Identifier: Apache-2.0
// The TCP store's server: its own thread, one State, and a session per client.
#include <asio/post.hpp>
#include <atomic>
#include <set>

#include "net/listener.hpp"
#include "net/wire/frame.hpp"
#include "net/wire/outbox.hpp"
#include "rendezvous/stores/state.hpp"
#include "rendezvous/stores/tcp_options.hpp"
#include "rendezvous/stores/tcp_store.hpp"

namespace ccoll {
namespace rendezvous {
namespace {

/// Limit on bytes queued for a client that does not read; beyond it the client is dropped.
constexpr std::size_t kMaxQueuedBytes = 5 * kMaxFrameBytes;

class Session;

/// Used on the service thread only, except for the counters.
struct Shared {
  explicit Shared(std::shared_ptr<const OwnJobs> own) : jobs(std::move(own)) {}

  const std::shared_ptr<const OwnJobs> jobs;  ///< null: serves all jobs
  State state;
  State::Ticket last_ticket = 0;
  std::set<Session*> sessions;
  std::atomic<std::uint64_t> clients{0};
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> rejected{0};
};

/// One client. Its reading coroutine keeps it. The state's replies hold it weakly, because it holds
/// the state.
class Session final : public std::enable_shared_from_this<Session> {
 public:
  Session(std::shared_ptr<Shared> shared, net::Stream stream)
      : shared_(std::move(shared)),
        stream_(std::move(stream)),
        outbox_(stream_, kMaxQueuedBytes, [this](const Failure&) { hang_up(); }) {
    shared_->sessions.insert(this);
    shared_->clients.fetch_add(1, std::memory_order_relaxed);
  }
  ~Session() { end(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Closes the connection and drops the client's waiting requests.
  void end() {
    if (shared_->sessions.erase(this) == 0) return;
    shared_->clients.fetch_sub(1, std::memory_order_relaxed);
    for (const auto& [id, ticket] : waiting_) shared_->state.abandon(ticket);
    waiting_.clear();
    std::error_code ignored;
    stream_.close(ignored);
  }

  static asio::awaitable<void> serve(std::shared_ptr<Session> self) {
    for (;;) {
      Result<std::string> frame = co_await net::read_frame(self->stream_, kMaxFrameBytes);
      if (!self->handle(frame)) break;
    }
    self->end();
  }

 private:
  /// False if the connection is over.
  bool handle(const Result<std::string>& frame) {
    if (!frame) {
      if (frame.error().kind == ErrorKind::corrupt) reject();
      return false;
    }
    auto request = decode_request(*frame);
    if (!request || waiting_.contains(request->id)) {
      reject();
      return false;
    }
    shared_->requests.fetch_add(1, std::memory_order_relaxed);
    if (request->content.op == Op::cancel) {
      cancel(static_cast<std::uint64_t>(request->content.number));
    } else if (request->content.op == Op::open) {
      answer(request->id, opened(request->content));
    } else {
      submit(request->id, std::move(request->content));
    }
    return stream_.is_open();
  }

  Result<Response> opened(const Request& request) const {
    if (shared_->jobs)
      CCOLL_TRY(
          shared_->jobs->objection(request.keys[0], static_cast<std::uint64_t>(request.number)));
    return Response{};
  }

  void reject() { shared_->rejected.fetch_add(1, std::memory_order_relaxed); }

  void submit(std::uint64_t id, Request request) {
    const State::Ticket ticket = ++shared_->last_ticket;
    shared_->state.submit(ticket, std::move(request),
                          [weak = weak_from_this(), id](State::Ticket, Result<Response> response) {
                            const auto self = weak.lock();
                            if (!self) return;
                            self->waiting_.erase(id);
                            self->answer(id, response);
                          });
    if (shared_->state.waits(ticket)) waiting_.emplace(id, ticket);
  }

  void cancel(std::uint64_t id) {
    const auto found = waiting_.find(id);
    if (found != waiting_.end()) shared_->state.cancel(found->second);
  }

  /// May run in the midst of other clients' requests, which must not fail with this one.
  void answer(std::uint64_t id, const Result<Response>& response) {
    try {
      outbox_.send(net::to_frame(encode(id, response)));
    } catch (...) {
      hang_up();
    }
  }

  /// Ends reading, and with it the session.
  void hang_up() {
    std::error_code ignored;
    stream_.close(ignored);
  }

  const std::shared_ptr<Shared> shared_;
  net::Stream stream_;
  net::Outbox outbox_;
  std::unordered_map<std::uint64_t, State::Ticket> waiting_;  // by the client's id
};

class TcpStoreServer final : public StoreServer {
 public:
  TcpStoreServer(std::shared_ptr<net::Service> service, std::shared_ptr<Shared> shared,
                 std::unique_ptr<net::Listener> listener)
      : service_(std::move(service)), shared_(std::move(shared)), listener_(std::move(listener)) {}

  ~TcpStoreServer() override {
    listener_.reset();
    if (service_->is_forked()) return;
    asio::post(service_->context(), [shared = shared_] {
      // The end of a session removes it from the set.
      while (!shared->sessions.empty()) (*shared->sessions.begin())->end();
    });
    service_->catch_up();
  }

  std::string address() const override { return net::to_string(listener_->endpoint()); }
  Statistics statistics() const override {
    return {shared_->clients.load(std::memory_order_relaxed),
            shared_->requests.load(std::memory_order_relaxed),
            shared_->rejected.load(std::memory_order_relaxed) + listener_->rejected()};
  }

 private:
  const std::shared_ptr<net::Service> service_;
  const std::shared_ptr<Shared> shared_;
  std::unique_ptr<net::Listener> listener_;
};

}  // namespace

Result<std::unique_ptr<StoreServer>> serve_store(const std::string& address,
                                                 const std::string& token, const TlsOptions& tls,
                                                 std::shared_ptr<const OwnJobs> jobs) {
  auto credentials = net::Credentials::make(token, tls);
  if (!credentials) return tl::unexpected(credentials.error());
  auto service = net::Service::dedicated();
  auto shared = std::make_shared<Shared>(std::move(jobs));
  auto& context = service->context();
  auto listener =
      net::Listener::open(service, address, std::move(*credentials),
                          [shared, &context](net::Purpose purpose, net::Stream stream) {
                            if (purpose != net::Purpose::store) {
                              shared->rejected.fetch_add(1, std::memory_order_relaxed);
                              return;
                            }
                            keep_alive(stream.socket());
                            auto session = std::make_shared<Session>(shared, std::move(stream));
                            net::spawn(context.get_executor(), Session::serve(std::move(session)),
                                       "a client of the store was dropped");
                          });
  if (!listener) return tl::unexpected(listener.error());
  return std::make_unique<TcpStoreServer>(std::move(service), std::move(shared),
                                          std::move(*listener));
}

}  // namespace rendezvous

std::unique_ptr<StoreServer> serve_tcp_store(const std::string& address, const std::string& token,
                                             const TlsOptions& tls) {
  return value_or_throw(rendezvous::serve_store(address, token, tls, nullptr));
}

}  // namespace ccoll
