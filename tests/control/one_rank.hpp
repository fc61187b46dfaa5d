// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Helpers for parts of control that call other ranks: one rank with its connections, and the
/// listeners that it may call, which are in the test's hands. All run in one thread.

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/connections/absences.hpp"
#include "control/connections/caller.hpp"
#include "control/connections/edges.hpp"
#include "control/flooding.hpp"
#include "control/parts.hpp"
#include "control/state/roster.hpp"
#include "control/state/stage.hpp"
#include "harness.hpp"
#include "net/listener.hpp"
#include "net/service.hpp"

namespace ccoll::control {

/// A service without a thread: the test runs its handlers.
class ServiceByHand final : public net::Service {
 public:
  asio::io_context& context() override { return context_; }
  bool catch_up() override { return true; }
  bool on_service_thread() const override { return true; }
  bool has_ended() const override { return is_over; }
  bool is_forked() const override { return false; }

  template <typename Holds>
  bool until(Holds holds) {
    return run_until(context_, holds);
  }
  /// Runs all that can go on without waiting.
  void turn() {
    context_.restart();
    context_.poll();
  }
  /// The result of a coroutine that does not throw.
  template <typename Value>
  Value result(asio::awaitable<Value> task) {
    std::optional<Value> result;
    asio::co_spawn(context_, std::move(task), [&](const std::exception_ptr& thrown, Value value) {
      REQUIRE_FALSE(thrown);
      result.emplace(std::move(value));
    });
    REQUIRE(until([&] { return result.has_value(); }));
    return std::move(*result);
  }

  bool is_over = false;

 private:
  asio::io_context context_;
};

/// Another rank, as its callers see it. The calls that it has got are numbered from 0.
class Callee {
 public:
  struct Heard {
    Type type;
    std::string body;
  };

  Callee(std::shared_ptr<ServiceByHand> service, std::uint32_t rank,
         const std::string& token = testing::job_token())
      : service_(std::move(service)), kept_port_(service_->context()) {
    listener_ = value_or_throw(
        net::Listener::open(service_, "127.0.0.1:0", token,
                            [this](net::Purpose, net::Stream stream) { take(std::move(stream)); }));
    row_.address.ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
    row_.address.port = listener_->endpoint().port();
    row_.address.process = 100 + rank;
    row_.nonce = 1000 + rank;
  }

  const Row& row() const { return row_; }
  /// From here on nobody listens there, nor does a stranger.
  void stop() {
    const auto at = listener_->endpoint();
    listener_.reset();
    kept_port_.open(at.protocol());
    kept_port_.set_option(asio::ip::tcp::acceptor::reuse_address(true));
    kept_port_.bind(at);
  }
  /// It has a connection to the caller, as if from a call.
  void take(net::Stream stream) { calls_.push_back({std::move(stream), {}, {}, false}); }

  std::size_t calls() const { return calls_.size(); }
  /// All frames that have come over that call.
  const std::vector<Heard>& heard(std::size_t call) {
    read(call);
    return calls_.at(call).frames;
  }
  std::vector<Type> types(std::size_t call) {
    std::vector<Type> types;
    for (const Heard& each : heard(call)) types.push_back(each.type);
    return types;
  }
  /// Whether the caller has ended that call.
  bool is_over(std::size_t call) {
    read(call);
    return calls_.at(call).is_over;
  }
  void say(std::size_t call, const std::string& frame) {
    asio::write(calls_.at(call).stream.socket(), asio::buffer(frame));
  }
  void hang_up(std::size_t call) { calls_.at(call).stream.socket().close(); }

 private:
  struct Call {
    net::Stream stream;
    std::string bytes;
    std::vector<Heard> frames;
    bool is_over;
  };

  void read(std::size_t at) {
    Call& call = calls_.at(at);
    auto& socket = call.stream.socket();
    if (!socket.is_open()) return;
    socket.non_blocking(true);
    char chunk[4096];
    asio::error_code error;
    while (const std::size_t count = socket.read_some(asio::buffer(chunk), error))
      call.bytes.append(chunk, count);
    call.is_over = error != asio::error::would_block;
    std::string_view rest = call.bytes;
    for (;;) {
      const auto frame = next_frame(rest, std::size_t{1} << 20);
      REQUIRE(frame);
      if (!*frame) break;
      call.frames.push_back({(*frame)->type, std::string((*frame)->body)});
    }
    call.bytes.erase(0, call.bytes.size() - rest.size());
  }

  const std::shared_ptr<ServiceByHand> service_;
  Row row_;
  std::unique_ptr<net::Listener> listener_;
  asio::ip::tcp::acceptor kept_port_;
  std::deque<Call> calls_;
};

/// A rank and what it knows; a test adds the part that calls. The others listen.
class OneRank : public Edge::Owner, public Flooding::Owner {
 public:
  OneRank(std::uint32_t self, std::uint32_t of)
      : rank(self),
        size(of),
        caller(service, membership_of(self, of)),
        news(of),
        roster(self, of, caller.row(), "told by rank 0"),
        edges(self, of, traffic, &now_shown),
        flooding(self, of, news, edges, owner->tasks, *this),
        absences(owner->tasks, [](std::uint32_t) {}) {
    for (std::uint32_t each = 0; each < of; each++)
      if (each != self) others.try_emplace(each, service, each);
  }
  /// Nothing runs from here on: the test's part has gone.
  ~OneRank() override {
    absences.stop();
    edges.clear();
  }

  /// The start-up is over: all rows are known.
  void join() {
    for (auto& [each, callee] : others) roster.set(each, callee.row());
    stage.begin(shown + std::chrono::hours(1));
    stage.decide(true);
  }
  /// A connection that is there from the start.
  Edge& connect(std::uint32_t peer) {
    using asio::ip::tcp;
    tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
    tcp::socket near(context);
    near.connect(acceptor.local_endpoint());
    others.at(peer).take(net::Stream(acceptor.accept()));
    return *meet(net::Stream(std::move(near)), peer, {}, {});
  }
  /// As the hub does.
  std::shared_ptr<Edge> meet(net::Stream stream, std::uint32_t peer, const PeerAddress& address,
                             const std::string& greeting) {
    auto edge = edges.add(std::move(stream), peer, address, self_);
    roster.met(peer);
    edge->start();
    if (!greeting.empty()) edges.send(*edge, greeting);
    return edge;
  }
  bool until(const std::function<bool()>& holds) { return service->until(holds); }

  Status received(Edge& /*edge*/, const Frame& /*frame*/) override { return {}; }
  void ended(Edge& edge, const std::string& /*why*/) override { edges.remove(edge); }
  void failed(Edge& /*edge*/, const Failure& failure) override { FAIL(failure.message); }
  void lost(std::uint32_t peer) override { edges.dismiss(peer); }
  void job_failed(const Failure& /*failure*/) override {}
  void gone() override {}

  const std::uint32_t rank, size;
  const std::shared_ptr<ServiceByHand> service = std::make_shared<ServiceByHand>();
  asio::io_context& context = service->context();
  const std::shared_ptr<TaskOwner> owner = std::make_shared<TaskOwner>(context);
  const Caller caller;
  Stage stage;
  News news;
  TrafficCount traffic;
  Roster roster;
  Edges edges;
  Flooding flooding;
  Absences absences;
  std::map<std::uint32_t, Callee> others;

 private:
  static Control::Membership membership_of(std::uint32_t self, std::uint32_t of) {
    Control::Membership membership;
    membership.rank = self;
    membership.size = of;
    membership.address.process = 100 + self;
    membership.credentials = testing::job_token();
    return membership;
  }

  const std::shared_ptr<Edge::Owner> self_{this, [](Edge::Owner*) {}};
};

}  // namespace ccoll::control
