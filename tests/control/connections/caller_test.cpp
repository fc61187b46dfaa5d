// SPDX-License-Identifier: Apache-2.0
#include "control/connections/caller.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <set>

#include "control/one_rank.hpp"

namespace ccoll::control {
namespace {

using namespace std::chrono_literals;

/// Rank 2 of 5, which calls rank 4.
struct Call {
  std::shared_ptr<ServiceByHand> service = std::make_shared<ServiceByHand>();
  Callee callee{service, 4};
  Caller caller = of("");

  Caller of(const std::string& added_to_token) const {
    Control::Membership membership;
    membership.rank = 2;
    membership.size = 5;
    membership.address.process = 102;
    membership.credentials = testing::job_token() + added_to_token;
    return {service, membership};
  }
  /// The answer, if the callee does that once it has heard the question.
  Result<std::string> answer(std::chrono::milliseconds patience,
                             const std::function<void()>& react) {
    std::optional<Result<std::string>> answer;
    asio::co_spawn(service->context(), caller.ask(callee.row(), patience),
                   [&](const std::exception_ptr&, Result<std::string> told) { answer = told; });
    REQUIRE(service->until(
        [&] { return callee.calls() == 1 && (answer || !callee.heard(0).empty()); }));
    react();
    REQUIRE(service->until([&] { return answer.has_value(); }));
    return *answer;
  }
};

}  // namespace

TEST_CASE("caller: each rank draws another number, and says which of the callee's it has read",
          "[unit]") {
  Call call;
  std::set<std::uint64_t> nonces{0};
  for (int i = 0; i < 100; i++) CHECK(nonces.insert(call.of("").row().nonce).second);
  const Hello hello = call.caller.hello_to(call.callee.row());
  CHECK(hello == Hello{2, 5, call.callee.row().nonce, call.caller.row()});
  CHECK(call.caller.row().address.process == 102);
}

TEST_CASE("caller: it tells whether somebody, a stranger or nobody listens", "[unit]") {
  Call call;
  const auto reach = [&](const Caller& caller) {
    return call.service->result(caller.connect(call.callee.row().address, 10s));
  };
  const auto reached = reach(call.caller);
  REQUIRE((reached && *reached));
  CHECK(call.callee.calls() == 1);
  const auto stranger = reach(call.of("another"));
  REQUIRE((stranger && !*stranger));
  CHECK(stranger->error().kind == ErrorKind::mismatch);
  call.callee.stop();
  const auto nobody = reach(call.caller);
  REQUIRE((nobody && !*nobody));
  CHECK(nobody->error().kind == ErrorKind::peer_lost);
}

TEST_CASE("caller: it does not keep the service, and calls nobody without one", "[unit]") {
  Call call;
  auto other = std::make_shared<ServiceByHand>();
  const Caller caller(other, {});
  other.reset();
  CHECK_FALSE(call.service->result(caller.connect(call.callee.row().address, 10s)));
  const auto answer = call.service->result(caller.ask(call.callee.row(), 10s));
  REQUIRE_FALSE(answer);
  CHECK(answer.error().kind == ErrorKind::aborted);
  CHECK(call.callee.calls() == 0);
}

TEST_CASE("caller: a question says who asks and who is meant, and ends with the answer", "[unit]") {
  Call call;
  const auto answer = call.answer(10s, [&] { call.callee.say(0, encode_welcome()); });
  REQUIRE(answer);
  const auto frame = parse(*answer);
  REQUIRE(frame);
  CHECK(frame->type == Type::welcome);
  const auto& heard = call.callee.heard(0);
  REQUIRE(heard.size() == 1);
  CHECK(heard[0].type == Type::question);
  CHECK(decode_hello(heard[0].body) == call.caller.hello_to(call.callee.row()));
  CHECK(call.service->until([&] { return call.callee.is_over(0); }));
}

TEST_CASE("caller: who hangs up or says nothing may only be slow", "[unit]") {
  Call call;
  const bool hangs_up = GENERATE(false, true);
  // The time runs out in the midst of the question, or after it: both say the same.
  const auto answer = call.answer(hangs_up ? 10s : 20ms, [&] {
    if (hangs_up) call.callee.hang_up(0);
  });
  REQUIRE_FALSE(answer);
  CHECK(answer.error().kind == ErrorKind::timed_out);
}

}  // namespace ccoll::control
