// SPDX-License-Identifier: Apache-2.0
// A receiving side whose peer is played by the test, slice by slice.
#include "comm/messages/receiving_side.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <map>

#include "comm/messages/sides.hpp"
#include "support/effort.hpp"

namespace ccoll::test {
namespace {

/// Rank 0's side. Rank 1 has only the ends of its links.
struct ReceiverAlone {
  ReceiverAlone() { side.slow.may_hesitate = false; }

  bool say(SendLink& link, const Frame& frame, const std::vector<std::byte>& data = {}) {
    if (!link.has_room()) return false;
    std::ranges::copy(data, link.room(data.size()));
    link.push(encode(frame, data.size()));
    return true;
  }
  /// The next answer of the side, if there is one.
  std::optional<Frame> answer() {
    const auto* const view = answers.front();
    if (view == nullptr) return std::nullopt;
    const auto frame = decode(view->header, 0).value();
    REQUIRE(answers.begin_read());
    REQUIRE(answers.pop());
    return frame;
  }

  Links links{2, fresh_communicator()};
  Side side{0, links, {}};
  SendLink& eager = *links.of(1).sender(0, kHeaderLane).value();
  SendLink& bulk = *links.of(1).sender(0, kBulkLane).value();
  ReceiveLink& answers = *links.of(1).receiver(0, kHeaderLane).value();
};

/// A whole message in one slice.
Frame whole(std::uint64_t id, std::size_t bytes, std::uint32_t tag = 7) {
  return {.id = id, .bytes = bytes, .tag = tag, .charged = true};
}

struct ToReceive {
  std::size_t head = 0;  ///< bytes of its eager slice
  std::size_t sent = 0;
  bool requests_to_send = false, is_cleared = false;
  std::vector<std::byte> data = {}, buffer = {};
  std::shared_ptr<MessageOperation> recv = {};

  std::size_t charge() const { return kEnvelopeBytes + head; }
};

/// A peer that sends and asks at random, within its credit.
class PlayedSender {
 public:
  explicit PlayedSender(std::mt19937_64& random) : random_(random) {}

  void send() {
    const auto bytes = random_() % 4 == 0 ? random_() % 400'000 : random_() % 2000;
    const auto head = random_() % 2 == 0 ? bytes : random_() % (bytes + 1);
    ToReceive message{.head = std::min(head, kMaxEagerBytes)};
    message.requests_to_send = message.head < bytes || random_() % 4 == 0;
    if (message.charge() > credit || !alone.eager.has_room()) return;
    credit -= message.charge();
    message.sent = message.head;
    message.data = content(messages.size(), bytes);
    Frame frame = whole(messages.size() + 1, bytes);
    frame.requests_to_send = message.requests_to_send;
    const std::vector<std::byte> first(message.data.begin(),
                                       message.data.begin() + std::ptrdiff_t(message.head));
    REQUIRE(alone.say(alone.eager, frame, first));
    messages.push_back(std::move(message));
  }
  void receive() {
    if (received == messages.size()) return;
    auto& message = messages[received++];
    message.buffer.resize(message.data.size());
    message.recv = alone.side.begin_recv(7, message.buffer);
  }
  void hear() {
    const auto answer = alone.answer();
    if (!answer) return;
    credit += answer->bytes;
    REQUIRE(credit <= kUnexpectedBytes);
    if (answer->kind == Frame::Kind::credit) return;
    REQUIRE(answer->kind == Frame::Kind::clear_to_send);
    auto& message = messages.at(answer->id - 1);
    CHECK(message.requests_to_send);
    CHECK(message.recv);
    CHECK_FALSE(std::exchange(message.is_cleared, true));
    if (message.sent < message.data.size()) cleared.push_back(answer->id - 1);
  }
  void send_payload() {
    if (cleared.empty() || !alone.bulk.has_room()) return;
    auto& message = messages[cleared.front()];
    const auto left = message.data.size() - message.sent;
    const auto bytes = std::min<std::size_t>(left, 1 + random_() % kCommonSliceBytes);
    const auto* const from = message.data.data() + message.sent;
    alone.say(alone.bulk, {.kind = Frame::Kind::payload, .id = cleared.front() + 1, .bytes = bytes},
              {from, from + bytes});
    message.sent += bytes;
    if (message.sent == message.data.size()) cleared.pop_front();
  }
  void step() {
    switch (random_() % 5) {
      case 0:
        return receive();
      case 1:
        return hear();
      case 2:
        return send_payload();
      default:
        REQUIRE(alone.side.round());
    }
  }
  bool is_over() const {
    return received == messages.size() &&
           std::ranges::all_of(messages, [](const auto& each) { return each.recv->done.load(); });
  }

  ReceiverAlone alone;
  std::deque<ToReceive> messages;  // stay where they are
  std::deque<std::size_t> cleared;
  std::size_t received = 0;
  std::size_t credit = kUnexpectedBytes;

 private:
  std::mt19937_64& random_;
};

}  // namespace

TEST_CASE("receiving side: each request is cleared once, and credit comes back as it is spent",
          "[comm][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int trial = 0; trial < testing::by_effort(10, 40, 500); trial++) {
    CAPTURE(trial);
    PlayedSender peer(random);
    for (int steps = 0; steps < 400; steps++) {
      if (random() % 3 == 0)
        peer.send();
      else
        peer.step();
    }
    for (int steps = 0; steps < 100'000 && !peer.is_over(); steps++) peer.step();
    REQUIRE(peer.is_over());
    for (int steps = 0; steps < 100; steps++) {
      REQUIRE(peer.alone.side.round());
      peer.hear();
    }
    for (const auto& message : peer.messages) {
      CHECK(message.is_cleared == message.requests_to_send);
      CHECK_FALSE(message.recv->failure);
      CHECK(message.buffer == message.data);
    }
    // Less than half may be owed still.
    CHECK(peer.credit > kUnexpectedBytes / 2);
  }
}

TEST_CASE("receiving side: a peer that takes what it has no right to is corrupt",
          "[comm][hostile]") {
  ReceiverAlone alone;
  std::vector<std::byte> buffer(1000);
  const std::vector<std::byte> data(100);
  SECTION("data without credit") {
    Frame frame = whole(1, 200);
    frame.charged = false;
    frame.requests_to_send = true;
    alone.say(alone.eager, frame, data);
  }
  SECTION("more than the credit") {
    const std::vector<std::byte> most(kMaxEagerBytes);
    std::uint64_t id = 1;
    for (std::size_t spent = 0;; id++) {
      spent += kEnvelopeBytes + most.size();
      REQUIRE(alone.say(alone.eager, whole(id, most.size()), most));
      if (spent > kUnexpectedBytes) break;
      REQUIRE(alone.side.round());
    }
  }
  SECTION("a payload on the link of eager slices") {
    alone.say(alone.eager, {.kind = Frame::Kind::payload, .id = 1, .bytes = 100}, data);
  }
  const auto clears = [&] {
    Frame frame = whole(1, 300);
    frame.requests_to_send = true;
    alone.side.begin_recv(7, buffer);
    alone.say(alone.eager, frame, data);
    REQUIRE(alone.side.round());
    REQUIRE(alone.answer()->id == 1);
  };
  const auto pays = [&](std::uint64_t id, std::size_t bytes) {
    clears();
    alone.say(alone.bulk, {.kind = Frame::Kind::payload, .id = id, .bytes = bytes},
              std::vector<std::byte>(bytes));
  };
  SECTION("a payload of another message") { pays(2, 200); }
  SECTION("a payload that is too long") { pays(1, 201); }
  SECTION("a payload of nothing") { pays(1, 0); }
  SECTION("an eager slice on the link of payloads") {
    clears();
    alone.say(alone.bulk, whole(1, 200), std::vector<std::byte>(200));
  }
  const auto round = alone.side.round();
  REQUIRE_FALSE(round);
  CHECK(round.error().kind == ErrorKind::corrupt);
  CHECK(round.error().message.starts_with("rank 1 sent "));
}

TEST_CASE("receiving side: messages taken now are the same, and what suits not stays",
          "[comm][property]") {
  using Found = ReceivingSide::Found;
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  ReceiverAlone alone;
  REQUIRE(alone.side.channel.sending().open());
  auto& receiving = alone.side.channel.receiving();
  std::size_t credit = kUnexpectedBytes;
  const auto never = [] { return false; };
  for (std::uint64_t id = 1; id < 2000; id++) {
    const auto bytes = random() % 3000;
    const auto sent = content(id, bytes);
    const auto tag = static_cast<std::uint32_t>(random() % 2);
    REQUIRE(credit >= kEnvelopeBytes + bytes);
    credit -= kEnvelopeBytes + bytes;
    REQUIRE(alone.say(alone.eager, whole(id, bytes, tag), sent));
    if (random() % 3 == 0) REQUIRE(alone.side.round());
    std::vector<std::byte> buffer(random() % 4 == 0 ? random() % 3000 : 3000);
    Received got;
    const auto pattern = static_cast<std::uint32_t>(random() % 8 == 0 ? 1 - tag : tag);
    const auto found =
        receiving.take_now({1, pattern}, buffer.data(), buffer.size(), DataType::uint8, got, never);
    CAPTURE(id, bytes, buffer.size(), tag, pattern);
    if (found == Found::message) {
      CHECK(pattern == tag);
      CHECK((got == Received{1, static_cast<int>(tag), bytes, bytes}));
      CHECK(std::equal(sent.begin(), sent.end(), buffer.begin()));
    } else {
      CHECK((pattern != tag || bytes > buffer.size()));
      buffer.assign(bytes, {});
      const auto recv = alone.side.begin_recv(tag, buffer);
      REQUIRE(alone.side.round());
      CHECK(recv->done);
      CHECK(buffer == sent);
    }
    while (const auto answer = alone.answer()) credit += answer->bytes;
    CHECK(credit <= kUnexpectedBytes);
  }
}

}  // namespace ccoll::test
