// SPDX-License-Identifier: Apache-2.0
// Random programs of two ranks' messages, each end moved on at random.
#include "comm/messages/channel.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>

#include "comm/messages/message_text.hpp"
#include "comm/messages/sides.hpp"
#include "support/effort.hpp"

namespace ccoll::test {
namespace {

constexpr std::byte kUntouched{0xa5};

/// A buffer that may be rows with gaps between them.
struct RowsBuffer {
  std::size_t bytes = 0;
  std::size_t row_bytes = 0, stride_bytes = 0;
  std::vector<std::byte> memory = {};

  std::size_t place(std::size_t i) const {
    return row_bytes == 0 ? i : i / row_bytes * stride_bytes + i % row_bytes;
  }
  void fill(const std::vector<std::byte>& data) {
    memory.assign(bytes == 0 ? 0 : place(bytes - 1) + 1, kUntouched);
    for (std::size_t i = 0; i < data.size(); i++) memory[place(i)] = data[i];
  }
};

struct Spoken {
  std::uint32_t tag = 0;
  std::uint64_t number = 0;
  RowsBuffer from = {}, to = {};
  std::shared_ptr<MessageOperation> send = {}, recv = {};  // once begun
};

/// The messages of one rank to the other, and the order in which they are received.
struct Direction {
  std::vector<Spoken> messages;
  std::vector<std::size_t> received;
  std::size_t sent = 0, asked = 0;  // begun so far

  bool any_tag = false;
};

MessageLimits random_limits(std::mt19937_64& random) {
  constexpr std::array<std::size_t, 5> kEager{0, 64, 4096, 64 << 10, kMaxEagerBytes};
  return {.eager_bytes = kEager[random() % kEager.size()],
          .strict = random() % 4 == 0,
          .all_in_payload = random() % 4 == 0};
}

std::size_t random_bytes(std::mt19937_64& random, const MessageLimits& limits) {
  switch (random() % 6) {
    case 0:
      return 0;
    case 1:
      return limits.eager_bytes + random() % 3;
    case 2:
      return random() % 600'000;
    default:
      return random() % 300;
  }
}

RowsBuffer random_buffer(std::mt19937_64& random, std::size_t bytes) {
  RowsBuffer buffer{.bytes = bytes};
  if (random() % 4 == 0) {
    buffer.row_bytes = 1 + random() % (random() % 2 == 0 ? 40 : 5000);
    buffer.stride_bytes = buffer.row_bytes + random() % 20;
  }
  return buffer;
}

Direction random_direction(std::mt19937_64& random, const MessageLimits& limits) {
  Direction direction;
  direction.any_tag = random() % 2 == 0;
  std::map<std::uint32_t, std::vector<std::size_t>> by_tag;
  std::vector<std::uint32_t> tags;
  const auto count = random() % 30;
  const bool spends_credit = random() % 4 == 0;
  for (std::size_t i = 0; i < count; i++) {
    const auto tag = static_cast<std::uint32_t>(random() % 3);
    const auto bytes = spends_credit ? limits.eager_bytes : random_bytes(random, limits);
    Spoken message{.tag = tag, .number = random()};
    message.from = random_buffer(random, bytes);
    message.from.fill(content(message.number, bytes));
    message.to = random_buffer(random, bytes + random() % 9);
    message.to.fill({});
    direction.messages.push_back(std::move(message));
    by_tag[direction.any_tag ? 0 : tag].push_back(i);
    tags.push_back(direction.any_tag ? 0 : tag);
  }
  // Receives of one tag follow one another; those of others come between them.
  std::ranges::shuffle(tags, random);
  std::map<std::uint32_t, std::size_t> next;
  for (const auto tag : tags) direction.received.push_back(by_tag[tag][next[tag]++]);
  return direction;
}

std::shared_ptr<MessageOperation> begin(Side& side, Side::What what,
                                        std::optional<std::uint32_t> tag, RowsBuffer& buffer) {
  auto operation = side.make(what, tag, buffer.memory);
  operation->bytes = buffer.bytes;
  operation->row_bytes = buffer.row_bytes;
  operation->stride_bytes = buffer.stride_bytes;
  side.begin(operation);
  return operation;
}

/// Two ranks and what they have to say to each other.
class Talk {
 public:
  Talk(std::mt19937_64& random, bool both_ways = true) : random_(random) {
    const auto limits = random_limits(random);
    CAPTURE(limits.eager_bytes, limits.strict, limits.all_in_payload);
    for (Rank rank = 0; rank < 2; rank++) {
      sides[rank] = std::make_unique<Side>(rank, links, limits, random());
      if (rank == 1 || both_ways) from[rank] = random_direction(random, limits);
    }
  }
  ~Talk() {
    for (Rank rank = 0; rank < 2; rank++) leave(rank);
  }

  void leave(Rank rank) {
    sides[rank].reset();
    links.leave(rank);
  }
  /// Begins a send or a receive of that rank, if it has another one to begin.
  bool begin_one(Rank rank) {
    auto& out = from[rank];
    auto& in = from[1 - rank];
    if (random_() % 2 == 0 && out.sent < out.messages.size()) {
      auto& message = out.messages[out.sent++];
      message.send = begin(*sides[rank], Side::What::send, message.tag, message.from);
      return true;
    }
    if (in.asked == in.received.size()) return out.sent < out.messages.size();
    auto& message = in.messages[in.received[in.asked++]];
    const auto tag = in.any_tag ? std::nullopt : std::optional(message.tag);
    message.recv = begin(*sides[rank], Side::What::recv, tag, message.to);
    return true;
  }
  void step() {
    const auto rank = static_cast<Rank>(random_() % 2);
    if (random_() % 3 == 0)
      begin_one(rank);
    else
      REQUIRE(sides[rank]->round());
  }
  void begin_rest() {
    for (Rank rank = 0; rank < 2; rank++)
      while (begin_one(rank)) continue;
  }
  /// Rounds until both say that nothing moves.
  void settle() {
    for (auto& side : sides) side->slow.may_hesitate = false;
    for (bool moved = true; moved;) {
      moved = false;
      for (auto& side : sides) {
        const auto round = side->round();
        REQUIRE(round);
        moved |= *round;
      }
    }
  }

  Links links{2, fresh_communicator()};
  std::array<std::unique_ptr<Side>, 2> sides;
  std::array<Direction, 2> from;

 private:
  std::mt19937_64& random_;
};

/// Whether the receive has exactly that message, and nothing beside it.
bool has_come(const Spoken& message) {
  const auto& recv = *message.recv;
  if (!recv.done || recv.failure) return false;
  auto expected = message.to;
  expected.fill(content(message.number, message.from.bytes));
  return recv.received->bytes == message.from.bytes &&
         recv.received->tag == static_cast<int>(message.tag) &&
         expected.memory == message.to.memory;
}

}  // namespace

TEST_CASE("channel: each message arrives once, in order, whatever waits for whom",
          "[comm][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int trial = 0; trial < testing::by_effort(20, 100, 2000); trial++) {
    CAPTURE(trial);
    Talk talk(random);
    for (auto steps = random() % 300; steps > 0; steps--) talk.step();
    talk.begin_rest();
    talk.settle();
    for (Rank rank = 0; rank < 2; rank++) {
      CHECK(talk.sides[rank]->pending.all().empty());
      for (const auto& message : talk.from[rank].messages) {
        CAPTURE(rank, message.tag, message.from.bytes, message.from.row_bytes,
                message.to.row_bytes);
        REQUIRE(message.send->done);
        REQUIRE_FALSE(message.send->failure);
        REQUIRE(has_come(message));
      }
      const auto& sent = talk.sides[rank]->channel.sending().traffic();
      const auto& received = talk.sides[1 - rank]->channel.receiving().traffic();
      CHECK(sent.messages_sent == talk.from[rank].messages.size());
      CHECK(sent.messages_sent == received.messages_received);
      CHECK(sent.bytes_sent == received.bytes_received);
    }
  }
}

TEST_CASE("channel: a rank that leaves fails one that waits for it, and none that it need not",
          "[comm][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  int failures = 0, successes = 0;
  for (int trial = 0; trial < testing::by_effort(20, 100, 2000); trial++) {
    CAPTURE(trial);
    Talk talk(random);
    for (auto steps = random() % 200; steps > 0; steps--) talk.step();
    auto& survivor = *talk.sides[0];
    survivor.slow.may_hesitate = false;
    talk.leave(1);
    Result<bool> moved = true;
    while (moved && *moved) moved = survivor.round();
    if (!moved) {
      CHECK(moved.error().kind == ErrorKind::peer_lost);
      CAPTURE(moved.error().message);
      CHECK(std::ranges::any_of(survivor.pending.all(), [&](const auto& operation) {
        return moved.error().message.starts_with(name_of(*operation, 0) + ", ");
      }));
      failures++;
    } else {
      // An operation on a link that the other has never opened is ended elsewhere.
      for (const auto& operation : survivor.pending.all())
        CHECK_FALSE(survivor.channel.is_connected(operation->stage));
      successes++;
    }
    for (const auto& message : talk.from[1].messages) {
      const bool is_over = message.recv && message.recv->done;
      CHECK((!is_over || has_come(message)));
    }
  }
  CHECK(failures > 0);
  CHECK(successes > 0);
}

TEST_CASE("channel: a rank that has sent all may leave at once, and all arrives",
          "[comm][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  int late = 0;
  for (int trial = 0; trial < testing::by_effort(20, 100, 2000); trial++) {
    CAPTURE(trial);
    Talk talk(random, false);
    while (talk.begin_one(1)) continue;
    auto& survivor = *talk.sides[0];
    const auto& leaver = *talk.sides[1];
    while (!leaver.pending.all().empty()) talk.step();
    survivor.slow.may_hesitate = false;
    talk.leave(1);
    while (talk.begin_one(0)) continue;
    late += survivor.pending.all().empty() ? 0 : 1;
    for (Result<bool> moved = true; *moved;) {
      moved = survivor.round();
      REQUIRE(moved);
    }
    CHECK(std::ranges::all_of(talk.from[1].messages, &has_come));
  }
  CHECK(late > 0);
}

}  // namespace ccoll::test
