// SPDX-License-Identifier: Apache-2.0
#include "comm/messages/inbox.hpp"

#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <string_view>

namespace ccoll {
namespace {

using Stage = MessageOperation::Stage;
using What = MessageOperation::What;

/// An inbox of rank 0 of 3, and what waits in it.
struct OneInbox {
  std::shared_ptr<MessageOperation> begin(What what, std::optional<Rank> from,
                                          std::uint64_t bytes = 8) {
    auto operation = std::make_shared<MessageOperation>();
    operation->what = what;
    operation->pattern = {from, 7};
    operation->type = DataType::int32;
    operation->bytes = bytes;
    operation->received.emplace();
    if (from) static_cast<void>(pending.count_with(*from));
    pending.begin(operation);
    return operation;
  }
  static Envelope message(Rank from, std::uint64_t bytes) {
    return {.from = from, .tag = 7, .bytes = bytes, .type = 0};
  }
  void store(Rank from, std::uint64_t bytes) {
    pending.count_with(from);
    inbox.store(message(from, bytes), nullptr, 0);
  }

  const Group group = Group::whole_job(3, 0);
  PendingMessages pending{[](Failure failure, std::string_view) { return failure; }};
  Inbox inbox{group, pending};
};

}  // namespace

TEST_CASE("inbox: a receive takes the message that waits, and waits itself where there is none",
          "[comm]") {
  OneInbox one;
  one.store(1, 8);
  const auto first = one.begin(What::recv, 1), second = one.begin(What::recv, 1);
  const auto taken = one.inbox.post(*first);
  REQUIRE(taken);
  CHECK(taken->envelope.bytes == 8);
  CHECK(first->stage == Stage::arriving);
  CHECK(first->received->count == 2);
  CHECK_FALSE(one.inbox.post(*second));
  CHECK(second->stage == Stage::posted);
  CHECK(one.inbox.take_receive(OneInbox::message(1, 4)) == second.get());
  CHECK(one.inbox.take_receive(OneInbox::message(1, 4)) == nullptr);
}

TEST_CASE("inbox: a receive from any rank counts for its message's rank once it has it", "[comm]") {
  OneInbox one;
  const auto& count = one.pending.count_with(2);
  const auto recv = one.begin(What::recv, std::nullopt);
  CHECK_FALSE(one.inbox.post(*recv));
  CHECK(one.inbox.one_for_any() == recv.get());
  CHECK(count == 0);
  CHECK(one.inbox.take_receive(OneInbox::message(2, 8)) == recv.get());
  CHECK(count == 1);
  CHECK(recv->pattern.from == 2U);
  CHECK(one.inbox.one_for_any() == nullptr);
  one.pending.complete(*recv);
  CHECK(count == 0);
  CHECK(one.pending.all().empty());
}

TEST_CASE("inbox: a receive whose buffer does not fit fails, and the next one has the message",
          "[comm]") {
  OneInbox one;
  const auto short_one = one.begin(What::recv, 1, 4), long_one = one.begin(What::recv, 1, 400);
  CHECK_FALSE(one.inbox.post(*short_one));
  CHECK_FALSE(one.inbox.post(*long_one));
  CHECK(one.inbox.take_receive(OneInbox::message(1, 8)) == long_one.get());
  REQUIRE(short_one->failure);
  CHECK(short_one->failure->kind == ErrorKind::mismatch);
  CHECK(short_one->failure->message ==
        "recv from rank 1 tag 7 on rank 0: the message has 8 bytes, the buffer 4");
  CHECK(one.inbox.refused().at(1) == 1);

  // A message that waits stays for the next receive.
  one.store(1, 6);
  const auto uneven = one.begin(What::recv, 1);
  CHECK_FALSE(one.inbox.post(*uneven));
  CHECK(uneven->done);
  CHECK(one.inbox.look({1, 7}));
  CHECK(one.inbox.refused().at(1) == 2);
}

TEST_CASE("inbox: probes are answered by a message that stays, or given up", "[comm]") {
  OneInbox one;
  const auto named = one.begin(What::probe, 1), any = one.begin(What::probe, std::nullopt),
             other = one.begin(What::probe, 2);
  for (auto* probe : {named.get(), any.get(), other.get()}) one.inbox.post_probe(*probe);
  CHECK(one.inbox.one_for_any() == any.get());
  CHECK(one.inbox.probe_of(2) == other.get());
  one.pending.begin_round();
  one.store(1, 8);
  CHECK(one.pending.has_moved());
  CHECK(named->done);
  CHECK(any->done);
  CHECK(any->received->from == 1);
  CHECK_FALSE(other->done);
  CHECK(one.inbox.one_for_any() == nullptr);
  CHECK(one.inbox.look({1, std::nullopt})->bytes == 8);

  one.inbox.give_up(*other, {ErrorKind::timed_out, "enough", std::nullopt});
  CHECK(other->failure->message == "enough");
  CHECK(one.inbox.probe_of(2) == nullptr);
  CHECK(one.pending.all().empty());
}

}  // namespace ccoll
