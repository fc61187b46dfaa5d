// SPDX-License-Identifier: Apache-2.0
// A sending side whose peer is played by the test, slice by slice.
#include "comm/messages/sending_side.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>

#include "comm/messages/sides.hpp"
#include "support/effort.hpp"

namespace ccoll::test {
namespace {

/// Rank 0's side. Rank 1 has only the ends of its links.
struct SenderAlone {
  explicit SenderAlone(const MessageLimits& limits) : side(0, links, limits) {
    side.slow.may_hesitate = false;
  }
  void say(const Frame& frame) {
    REQUIRE(back.has_room());
    back.room(0);
    back.push(encode(frame, 0));
  }

  Links links{2, fresh_communicator()};
  Side side;
  ReceiveLink& eager = *links.of(1).receiver(0, kHeaderLane).value();
  ReceiveLink& bulk = *links.of(1).receiver(0, kBulkLane).value();
  SendLink& back = *links.of(1).sender(0, kHeaderLane).value();
};

/// A message as its receiver sees it.
struct Announced {
  std::shared_ptr<MessageOperation> send;
  std::vector<std::byte> data = {};
  std::vector<std::byte> come = {};
  std::uint64_t id = 0;  ///< 0: nothing has come
  bool requests_to_send = false, cleared = false;
  std::uint32_t slice_bytes = 0;

  bool is_whole() const { return id != 0 && come.size() == data.size(); }
};

/// Plays the peer at random, and checks each slice.
class PlayedPeer {
 public:
  PlayedPeer(std::mt19937_64& random, const MessageLimits& given)
      : limits(given), sender(given), random_(random) {}

  void send(std::size_t bytes) {
    Announced message;
    message.data = content(messages.size(), bytes);
    messages.push_back(std::move(message));
    auto& added = messages.back();
    added.send = sender.side.begin_send(static_cast<std::uint32_t>(messages.size()), added.data);
  }
  /// Reads the next eager slice, if there is one.
  bool read_eager() {
    const auto* const view = sender.eager.front();
    if (view == nullptr) return false;
    const auto frame = decode(view->header, 0).value();
    auto& message = messages[announced_++];
    CHECK(frame.kind == Frame::Kind::eager);
    CHECK(frame.tag == announced_);
    CHECK(frame.bytes == message.data.size());
    message.id = frame.id;
    message.requests_to_send = frame.requests_to_send;
    message.come.assign(view->data, view->data + view->header.bytes);
    CHECK(frame.requests_to_send == (limits.strict || !frame.charged || !message.is_whole()));
    CHECK((frame.charged || view->header.bytes == 0));
    CHECK(view->header.bytes <= limits.eager_bytes);
    if (frame.charged) spent += kEnvelopeBytes + view->header.bytes;
    CHECK(spent <= kUnexpectedBytes);
    REQUIRE(sender.eager.begin_read());
    REQUIRE(sender.eager.pop());
    return true;
  }
  /// Reads the next slice of a payload, if there is one.
  bool read_payload() {
    const auto* const view = sender.bulk.front();
    if (view == nullptr) return false;
    const auto frame = decode(view->header, 0).value();
    REQUIRE_FALSE(cleared.empty());
    auto& message = messages[cleared.front()];
    CHECK(frame.kind == Frame::Kind::payload);
    CHECK(frame.id == message.id);
    CHECK_FALSE(message.send->done);
    if (message.slice_bytes > 0) CHECK(view->header.bytes <= message.slice_bytes);
    REQUIRE(sender.bulk.begin_read());
    message.come.insert(message.come.end(), view->data, view->data + view->header.bytes);
    REQUIRE(sender.bulk.pop());
    if (message.is_whole()) cleared.erase(cleared.begin());
    return true;
  }
  /// Clears one that waits for it, with some credit; or gives only credit.
  bool answer() {
    if (!sender.back.has_room()) return false;
    const auto credit = random_() % 2 == 0 ? spent : random_() % (spent + 1);
    for (std::size_t i = 0; i < messages.size(); i++) {
      auto& message = messages[i];
      if (!message.requests_to_send || message.cleared || random_() % 2 == 0) continue;
      CHECK_FALSE(message.send->done);
      message.cleared = true;
      message.slice_bytes = random_() % 2 == 0 ? 0 : 1 + random_() % 100'000;
      if (!message.is_whole()) cleared.push_back(i);
      give(credit, {.kind = Frame::Kind::clear_to_send,
                    .id = message.id,
                    .slice_bytes = message.slice_bytes});
      return true;
    }
    if (credit == 0) return false;
    give(credit, {.kind = Frame::Kind::credit});
    return true;
  }
  void step() {
    switch (random_() % 4) {
      case 0:
        read_eager();
        break;
      case 1:
        read_payload();
        break;
      case 2:
        answer();
        break;
      default:
        REQUIRE(sender.side.round());
    }
  }
  bool is_over() const {
    return std::ranges::all_of(messages, [](const auto& each) { return each.send->done.load(); });
  }

  const MessageLimits limits;
  SenderAlone sender;
  std::deque<Announced> messages;    // stay where they are
  std::vector<std::size_t> cleared;  // whose payloads come, in this order
  std::size_t spent = 0;             // credit that has not been given back

 private:
  void give(std::size_t credit, Frame frame) {
    spent -= credit;
    frame.bytes = credit;
    sender.say(frame);
  }

  std::mt19937_64& random_;
  std::size_t announced_ = 0;
};

using Stage = MessageOperation::Stage;

}  // namespace

TEST_CASE("sending side: whatever its peer answers, it spends the credit that it has and no more",
          "[comm][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int trial = 0; trial < testing::by_effort(10, 40, 500); trial++) {
    constexpr std::array<std::size_t, 4> kEager{0, 64, 64 << 10, kMaxEagerBytes};
    const MessageLimits limits{.eager_bytes = kEager[random() % kEager.size()],
                               .strict = random() % 4 == 0,
                               .all_in_payload = random() % 4 == 0};
    CAPTURE(trial, limits.eager_bytes, limits.strict, limits.all_in_payload);
    PlayedPeer peer(random, limits);
    for (int steps = 0; steps < 300; steps++) {
      if (random() % 4 == 0)
        peer.send(random() % 3 == 0 ? random() % 300'000
                                    : limits.eager_bytes - limits.eager_bytes / 8);
      else
        peer.step();
    }
    for (int steps = 0; steps < 100'000 && !peer.is_over(); steps++) peer.step();
    REQUIRE(peer.is_over());
    while (peer.read_eager()) continue;
    for (const auto& message : peer.messages) {
      CHECK_FALSE(message.send->failure);
      CHECK(message.come == message.data);
    }
  }
}

TEST_CASE("sending side: answers that nobody has a right to give are corrupt", "[comm][hostile]") {
  SenderAlone alone({});
  std::vector<std::byte> data(1000);
  const auto send = alone.side.begin_send(1, data);
  REQUIRE(alone.side.round());
  REQUIRE(send->done);
  SECTION("more credit than was spent") {
    alone.say({.kind = Frame::Kind::credit, .bytes = kEnvelopeBytes + 1001});
  }
  SECTION("so much credit that it wraps") {
    alone.say({.kind = Frame::Kind::credit, .bytes = UINT64_MAX});
  }
  SECTION("a message that waits for nothing is cleared") {
    alone.say({.kind = Frame::Kind::clear_to_send, .id = send->id});
  }
  SECTION("a message that was never sent is cleared") {
    alone.say({.kind = Frame::Kind::clear_to_send, .id = send->id + 1});
  }
  SECTION("the credit is right, but comes twice") {
    alone.say({.kind = Frame::Kind::credit, .bytes = kEnvelopeBytes + 1000});
    REQUIRE(alone.side.round());
    alone.say({.kind = Frame::Kind::credit, .bytes = kEnvelopeBytes + 1000});
  }
  const auto round = alone.side.round();
  REQUIRE_FALSE(round);
  CHECK(round.error().kind == ErrorKind::corrupt);
}

TEST_CASE("sending side: a lost peer fails the send that waits, at whatever stage",
          "[comm][unit]") {
  SenderAlone alone({.eager_bytes = 64, .strict = true});
  std::vector<std::byte> data(1'000'000);
  const Failure why{ErrorKind::peer_lost, "rank 1 is lost", 1};
  const auto send = alone.side.begin_send(7, data);
  auto stage = Stage::queued;
  if (GENERATE(false, true)) {
    REQUIRE(alone.side.round());
    stage = Stage::requested;
    if (GENERATE(false, true)) {
      alone.say({.kind = Frame::Kind::clear_to_send, .id = send->id, .slice_bytes = 100'000});
      REQUIRE(alone.side.round());
      stage = Stage::sending;
    }
  }
  CAPTURE(stage);
  REQUIRE(send->stage == stage);
  alone.links.of(0).peer_gone(1, Departure::lost, why);
  const auto round = alone.side.round();
  REQUIRE_FALSE(round);
  CHECK(round.error().culprit == 1U);
  CHECK(round.error().message.starts_with("send to rank 1 tag 7 (1000000 bytes) on rank 0, "));
  CHECK(round.error().message.ends_with(": rank 1 is lost"));
}

TEST_CASE("sending side: a peer that is lost before it came fails what was announced to it",
          "[comm][unit]") {
  Links links(2, fresh_communicator());
  Side side(0, links, {.strict = true});
  std::vector<std::byte> data(10);
  const auto send = side.begin_send(7, data);
  REQUIRE(side.round());
  REQUIRE(send->stage == Stage::requested);
  SECTION("lost") {
    links.of(0).peer_gone(1, Departure::lost, {ErrorKind::peer_lost, "rank 1 is lost", 1});
    // The link from it is as lost, but only this way is looked at.
    const auto flushed = side.channel.sending().flush(nullptr);
    REQUIRE_FALSE(flushed);
    CHECK(flushed.error().message.starts_with("send to rank 1 tag 7"));
  }
  SECTION("there") { CHECK(side.channel.sending().flush(nullptr)); }
}

}  // namespace ccoll::test
