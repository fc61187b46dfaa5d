// SPDX-License-Identifier: Apache-2.0
// A hub whose service the test runs: what other threads ask of it, and who may talk to it.
#include "control/hub.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <stdexcept>

#include "control/one_rank.hpp"
#include "support/effort.hpp"

namespace ccoll::control {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Types = std::vector<Type>;

/// Rank 0 of a job, and one other, rank 1, whose calls have the handshake behind them.
struct Called {
  const std::shared_ptr<ServiceByHand> service = std::make_shared<ServiceByHand>();
  const std::uint32_t size;
  const std::shared_ptr<Hub> hub = std::make_shared<Hub>(service, membership_of(size));
  Callee other{service, 1};

  explicit Called(std::uint32_t of = 2) : size(of) {}
  ~Called() {
    for (std::size_t call = 0; call < other.calls(); call++) other.hang_up(call);
    if (!service->is_over) hub->leave();
    until([&] { return hub->progress().state.lock()->gone; });
    service->turn();
  }

  static Control::Membership membership_of(std::uint32_t size) {
    Control::Membership membership;
    membership.size = size;
    membership.address.process = 100;
    membership.now = &now_shown;
    return membership;
  }
  template <typename Holds>
  bool until(Holds holds) {
    return service->until(holds);
  }
  Row row_of(std::uint32_t rank) const {
    Row row = other.row();
    row.address.process = 100 + rank;
    return row;
  }
  Hello hello(std::uint32_t rank = 1) const { return {rank, size, hub->row().nonce, row_of(rank)}; }
  /// Calls, and says that.
  std::size_t call(const std::string& first) {
    using asio::ip::tcp;
    tcp::acceptor acceptor(service->context(), {asio::ip::address_v4::loopback(), 0});
    tcp::socket far(service->context());
    far.connect(acceptor.local_endpoint());
    hub->accept(net::Stream(acceptor.accept()));
    other.take(net::Stream(std::move(far)));
    other.say(other.calls() - 1, first);
    return other.calls() - 1;
  }
  bool has_got(std::size_t at, Type type) { return std::ranges::count(other.types(at), type) > 0; }
  /// The first frame that comes over that call.
  Callee::Heard answer(std::size_t at) {
    REQUIRE(until([&] { return !other.heard(at).empty(); }));
    return other.heard(at)[0];
  }
  /// Lets the other rank join this one, which starts up.
  std::size_t join() {
    hub->start_up().begin(shown + 1h);
    const auto at = call(encode(hello()));
    CHECK(answer(at).type == Type::welcome);
    other.say(at, encode_rows({row_of(1)}));
    REQUIRE(until([&] { return outcome().has_value(); }));
    CHECK(*outcome());
    return at;
  }
  std::optional<Status> outcome() { return hub->progress().state.lock()->outcome; }
};

}  // namespace

TEST_CASE("hub: actions run on the service alone, in order, while there is one", "[unit]") {
  Called one;
  std::string done;
  const auto ask = [&](char name) { Hub::run(one.hub, [&done, name](Hub&) { done += name; }); };
  ask('a');
  Hub::run(one.hub, [&](Hub&) { ask('d'); });
  ask('b');
  ask('c');
  CHECK(done.empty());
  one.service->turn();
  CHECK(done == "abcd");
  ask('e');
  // Once the process ends its thread, news must get out all the same.
  one.service->is_over = true;
  ask('f');
  CHECK(done == "abcdef");
  Hub::run(one.hub, [](Hub& hub) { hub.leave(); });
}

TEST_CASE("hub: an action that throws ends every communicator, and no other action", "[unit]") {
  Called one;
  one.join();
  bool has_run = false;
  Hub::run(one.hub, [](Hub&) { throw std::runtime_error("thrown"); });
  Hub::run(one.hub, [&](Hub&) { has_run = true; });
  one.service->turn();
  CHECK(has_run);
  const auto failure = one.hub->news().general_failure();
  REQUIRE(failure);
  CHECK(failure->message == "the control path of rank 0 failed: thrown");
  CHECK(failure->culprit == 0u);
  REQUIRE(one.until([&] { return one.has_got(0, Type::failure); }));
}

TEST_CASE("hub: who asks gets an answer and no connection, and does no harm", "[unit]") {
  Called one;
  one.join();
  const auto refused = one.hub->statistics().refused;
  const auto ask = [&](const Hello& hello) {
    const auto at = one.call(encode_question(hello));
    const auto answer = one.answer(at);
    CHECK(one.until([&] { return one.other.is_over(at); }));
    return answer.type;
  };
  CHECK(ask(one.hello()) == Type::welcome);
  auto stranger = one.hello();
  stranger.callee++;
  CHECK(ask(stranger) == Type::refused);
  CHECK(one.hub->statistics().refused == refused);
  CHECK_FALSE(one.other.is_over(0));
  CHECK_FALSE(one.hub->news().general_failure());
  CHECK_FALSE(one.hub->news().is_gone(1));
}

TEST_CASE("hub: strangers are turned away, with a reason if they speak our language", "[unit]") {
  Called one;
  auto another_job = one.hello();
  another_job.callee++;
  const auto at = one.call(encode(another_job));
  const auto answer = one.answer(at);
  REQUIRE(answer.type == Type::refused);
  CHECK_THAT(decode_refusal(answer.body)->reason.message, Contains("of another job"));
  CHECK(one.until([&] { return one.other.is_over(at); }));
  const std::string no_hello[] = {"GET / HTTP/1.1\r\n\r\n", encode_beat(1), encode_welcome(),
                                  std::string(4, '\0')};
  for (const auto& said : no_hello) {
    const auto call = one.call(said);
    CHECK(one.until([&] { return one.other.is_over(call); }));
    CHECK(one.other.heard(call).empty());
  }
  CHECK(one.hub->statistics().refused == 1 + std::size(no_hello));
  one.join();
}

TEST_CASE("hub: a peer that sends a message that nobody can read, or expects, is lost", "[unit]") {
  // No message has such a body, and none may come that is not listed here.
  const auto type = GENERATE(range(1, 12));
  Called one;
  const auto at = one.join();
  // A length, the version and the type come before the body.
  const std::string body = "x";
  std::string frame{static_cast<char>(2 + body.size()), 0, 0, 0};
  frame += static_cast<char>(kWireVersion);
  frame += static_cast<char>(type);
  one.other.say(at, frame + body);
  CAPTURE(type);
  REQUIRE(one.until([&] { return one.hub->news().is_gone(1); }));
  CHECK_THAT(one.hub->news().general_failure()->message,
             Contains("rank 1 (host 127.0.0.1, pid 0) was lost: its control connection was "
                      "dropped, because it sent "));
}

TEST_CASE("hub: a lost rank hears of it, and nothing that it says counts", "[unit]") {
  Called one;
  const auto at = one.join();
  one.hub->flooding().lose(1, {}, "why");
  REQUIRE(one.until([&] { return one.has_got(at, Type::failure); }));
  one.other.say(at, encode(FailureNews{1, 1, 7, {ErrorKind::timed_out, "late news", {}}}));
  one.other.hang_up(at);
  for (int i = 0; i < 10; i++) one.service->turn();
  CHECK(one.hub->news().failures().size() == 1);
}

TEST_CASE("hub: a rank that leaves is gone when its peers have heard it", "[unit]") {
  Called one;
  const auto at = one.join();
  one.hub->leave();
  one.hub->leave();
  const auto is_gone = [&] { return one.hub->progress().state.lock()->gone; };
  CHECK(one.until([&] { return one.other.is_over(at); }));
  CHECK(std::ranges::count(one.other.types(at), Type::left) == 1);
  CHECK_FALSE(is_gone());
  one.other.hang_up(at);
  CHECK(one.until(is_gone));
  CHECK_FALSE(one.hub->news().general_failure());
}

TEST_CASE("hub: it is gone once the last peer closes, before its own limit", "[unit]") {
  const auto is_gone_in_time = [] {
    Called one;
    const auto at = one.join();
    const auto begin = Clock::now();
    one.hub->leave();
    one.other.hang_up(at);
    one.until([&] { return one.hub->progress().state.lock()->gone; });
    return Clock::now() - begin < Hub::kLeaveLimit;
  };
  CHECK(testing::holds_at_last(is_gone_in_time));
}

TEST_CASE("hub: a peer that says goodbye before it closes is no loss", "[unit]") {
  Called one;
  const auto at = one.join();
  const std::uint32_t departed[] = {1};
  one.other.say(at, encode_left(departed));
  one.other.hang_up(at);
  REQUIRE(one.until([&] { return one.hub->news().has_left(1); }));
  for (int i = 0; i < 10; i++) one.service->turn();
  CHECK(one.hub->news().failures().empty());
}

TEST_CASE("hub: a second process that claims a rank is told so, and so is everyone", "[unit]") {
  Called one(3);
  one.hub->start_up().begin(shown + 1h);
  const auto first = one.call(encode(one.hello()));
  CHECK(one.answer(first).type == Type::welcome);
  auto claim = one.hello();
  claim.row.address.process = 777;
  const auto second = one.call(encode(claim));
  const auto answer = one.answer(second);
  REQUIRE(answer.type == Type::refused);
  const std::string why = "two processes claim to be rank 1";
  CHECK_THAT(decode_refusal(answer.body)->reason.message, Contains(why));
  REQUIRE(one.until([&] { return one.outcome().has_value(); }));
  REQUIRE_FALSE(*one.outcome());
  CHECK_THAT(one.outcome()->error().message, Contains(why));
  CHECK(one.until([&] { return one.has_got(first, Type::left); }));
}

TEST_CASE("hub: the last call completes a start-up, whose table is there", "[unit]") {
  Called one(4);
  one.hub->start_up().begin(shown + 1h);
  // Rank 3 is below rank 1, and its ring successor is rank 0.
  one.other.say(one.call(encode(one.hello(1))), encode_rows({one.row_of(1), one.row_of(3)}));
  one.other.say(one.call(encode(one.hello(2))), encode_rows({one.row_of(2)}));
  for (const std::size_t call : {0, 1})
    REQUIRE(one.until([&] { return one.has_got(call, Type::table); }));
  CHECK_FALSE(one.outcome());
  CHECK(one.answer(one.call(encode(one.hello(3)))).type == Type::welcome);
  REQUIRE(one.outcome());
  CHECK(*one.outcome());
}

TEST_CASE("hub: who leaves in the midst of a start-up ends it for all that have come", "[unit]") {
  Called one(3);
  one.hub->start_up().begin(shown + 1h);
  const auto at = one.call(encode(one.hello()));
  CHECK(one.answer(at).type == Type::welcome);
  one.hub->leave();
  REQUIRE(one.outcome());
  REQUIRE_FALSE(*one.outcome());
  CHECK(one.outcome()->error().message == "start-up: rank 0 gave up");
  CHECK(one.until([&] { return one.other.is_over(at); }));
  CHECK(one.other.types(at) == Types{Type::welcome, Type::failure, Type::left});
}

}  // namespace ccoll::control
