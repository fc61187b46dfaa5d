// SPDX-License-Identifier: Apache-2.0
// Two ranks of one communicator in one thread, each moved on when the test says so.
#include "comm/messages/message_calls.hpp"

#include <catch2/catch.hpp>

#include "comm/parts.hpp"

namespace ccoll::test {
namespace {

using What = MessageOperation::What;

struct TalkingRanks {
  Parts sender{0, {0, 1}, 28};
  Parts receiver{1, {0, 1}, 28};

  void run() {
    for (bool moved = true; moved;) {
      moved = sender.round();
      moved = receiver.round() || moved;
    }
  }
  bool send_short(const std::vector<float>& values) {
    const Owner owned(sender.progress);
    return sender.message_calls.send_short(owned, MessageRequest::send(values, 1, kTag));
  }
  std::optional<Received> recv_short(std::vector<float>& values, int tag = kTag) {
    const Owner owned(receiver.progress);
    const auto request = MessageRequest::recv(values, 0, tag);
    Received got;
    if (!receiver.message_calls.recv_short(owned, request, got)) return std::nullopt;
    return got;
  }
  static constexpr int kTag = 7;
};

}  // namespace

TEST_CASE("message calls: the short way is open once the general way has opened the links",
          "[comm][unit]") {
  TalkingRanks ranks;
  const std::vector<float> out{1, 2, 3};
  std::vector<float> in(3);
  CHECK_FALSE(ranks.send_short(out));
  CHECK_FALSE(ranks.recv_short(in));
  const auto send = ranks.sender.begin(What::send, 1);
  const auto recv = ranks.receiver.begin(What::recv, 0);
  ranks.run();
  CHECK(send->done);
  CHECK(recv->done);
  CHECK(ranks.send_short(out));
  const auto got = ranks.recv_short(in);
  REQUIRE(got);
  CHECK(got->from == 0);
  CHECK(got->count == 3);
  CHECK(in == out);
  CHECK(ranks.send_short(out));
  const auto another = ranks.recv_short(in, kAnyTag);
  REQUIRE(another);
  CHECK(another->tag == TalkingRanks::kTag);
}

TEST_CASE("message calls: while anything is under way, or wrong, the short way is closed",
          "[comm][unit]") {
  TalkingRanks ranks;
  ranks.sender.begin(What::send, 1);
  ranks.receiver.begin(What::recv, 0);
  ranks.run();
  const std::vector<float> out{1};
  SECTION("a receive is under way") {
    ranks.sender.begin_recv(1);
    CHECK_FALSE(ranks.send_short(out));
  }
  SECTION("news have come") {
    ranks.sender.failures.hear({ErrorKind::aborted, "enough", 1});
    CHECK_FALSE(ranks.send_short(out));
  }
  SECTION("it is closed") {
    ranks.sender.failures.verdict().close();
    CHECK_FALSE(ranks.send_short(out));
  }
}

TEST_CASE("message calls: a look finds the message that a receive would take", "[comm][unit]") {
  TalkingRanks ranks;
  const auto look = [&](const Pattern& pattern) {
    const Owner owned(ranks.receiver.progress);
    return ranks.receiver.message_calls.look(owned, pattern).value();
  };
  CHECK_FALSE(look({0, 7}));
  ranks.sender.begin(What::send, 1);
  ranks.run();
  CHECK_FALSE(look({0, 8}));
  const auto found = look({std::nullopt, std::nullopt});
  REQUIRE(found);
  CHECK(found->from == 0);
  CHECK(found->tag == 7);
  CHECK(found->bytes == 1);
  CHECK(look({0, 7}));  // it takes nothing
}

TEST_CASE("message calls: in a broken communicator they fail at once", "[comm][unit]") {
  TalkingRanks ranks;
  {
    const Owner owned(ranks.receiver.progress);
    ranks.receiver.failures.break_with(owned, {ErrorKind::aborted, "enough", 0}, false);
  }
  const Owner owned(ranks.receiver.progress);
  CHECK_FALSE(ranks.receiver.message_calls.look(owned, {0, 7}));
  CHECK_FALSE(ranks.receiver.message_calls.begin(
      owned, std::vector{std::make_shared<MessageOperation>()}, {}));
}

}  // namespace ccoll::test
