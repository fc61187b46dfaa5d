// SPDX-License-Identifier: Apache-2.0
// Two ranks that send to each other over RDMA with one queue pair for both directions of a lane, on
// the in-memory device of tests/rdma.
#include <catch2/catch.hpp>
#include <cerrno>
#include <random>

#include "rdma/device.hpp"
#include "rdma/faults.hpp"
#include "transport/pair.hpp"
#include "transport/registered_memory.hpp"
#include "transport/verbs/pair_ends.hpp"
#include "transport/verbs/queue_pair.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using rdma::Call;

namespace {

/// Links of one lane in both directions; checks the objects that they leave at the device.
class Both {
 public:
  Both() : Both(Pair::Setting()) {}
  explicit Both(const Pair::Setting& setting) { pair.emplace(*find_transport("verbs"), setting); }
  ~Both() { rdma::reset(); }

  void open(std::size_t from, std::uint16_t lane = 0) {
    const auto rank = static_cast<std::uint32_t>(from);
    const LinkId id{pair->communicator, rank, 1 - rank, lane};
    senders[from] = pair->of(from).open_send(id, pair->waiters[from]).value();
    receivers[from] = pair->of(1 - from).open_receive(id, pair->waiters[1 - from]).value();
  }
  /// `registered`: how many memories are registered besides the links' own.
  void close(std::size_t registered = 0) {
    rdma::reset();
    senders = {};
    receivers = {};
    CHECK(eventually(*pair, [&] { return rdma::objects() == rdma::Objects{0, 0, 0, registered}; }));
    CHECK(rdma::times_not_ready() == 0);
  }
  void exchange(std::size_t from, std::uint64_t number, std::size_t bytes = 3000) {
    const auto data = pattern(number, bytes);
    push(*senders[from], number, data);
    REQUIRE(receives(from, number, data));
  }
  bool receives(std::size_t from, std::uint64_t number, const std::vector<std::byte>& data) {
    auto& link = *receivers[from];
    const ReceiveLink::View* view = nullptr;
    eventually(*pair, [&] {
      senders[from]->progress();
      view = link.front();
      return view != nullptr || link.failure() != nullptr;
    });
    return view != nullptr && view->header.sequence == number && equals(*view, data) &&
           link.begin_read() && link.pop();
  }

  std::optional<Pair> pair;
  // Indexed by the rank that sends.
  std::array<std::unique_ptr<SendLink>, 2> senders;
  std::array<std::unique_ptr<ReceiveLink>, 2> receivers;
};

/// Memory registered while this lives.
struct Registered {
  explicit Registered(std::size_t bytes) : data(bytes) {
    number =
        RegisteredMemories::of_process().add(data.data(), bytes, FileDescriptor(-1), 0).value();
  }
  ~Registered() { RegisteredMemories::of_process().remove(number); }
  std::vector<std::byte> data;
  std::uint32_t number = 0;
};

/// Two ends, each with slots for either direction.
constexpr rdma::Objects kShared{2, 2, 2, 4};

}  // namespace

TEST_CASE("rdma: both directions of a lane use one queue pair, whoever begins or if both do",
          "[transport][verbs]") {
  const auto first = GENERATE(0U, 1U);
  const bool at_once = GENERATE(false, true);
  CAPTURE(first, at_once);
  for (int round = 0; round < 30; round++) {
    Both both;
    both.open(first);
    if (!at_once) both.exchange(first, 0);
    both.open(1 - first);
    for (std::uint64_t i = 1; i < 20; i++)
      for (const std::size_t from : {0, 1}) both.exchange(from, i);
    CHECK(rdma::objects() == kShared);
    both.close();
  }
}

TEST_CASE("rdma: slices go both ways in any order, each direction with its own window",
          "[transport][verbs]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Both both;
  for (const std::size_t from : {0, 1}) both.open(from);
  if (random() % 2 == 0) rdma::mix_completions(seed);
  std::array<std::uint64_t, 2> sent{}, taken{};
  const auto data = [](std::uint64_t number) { return pattern(number, number * 37 % 20'000); };
  // More slices than counts can distinguish.
  while (taken[0] < 2000 || taken[1] < 2000) {
    const auto from = random() % 2;
    if (random() % 2 == 0) {
      if (both.senders[from]->has_room()) {
        push(*both.senders[from], sent[from], data(sent[from]));
        sent[from]++;
      }
    } else if (taken[from] < sent[from]) {
      REQUIRE(both.receives(from, taken[from], data(taken[from])));
      taken[from]++;
    }
  }
  for (const std::size_t from : {0, 1})
    for (; taken[from] < sent[from]; taken[from]++)
      REQUIRE(both.receives(from, taken[from], data(taken[from])));
  both.close();
}

TEST_CASE("rdma: counts go round, and credits travel with what goes the other way",
          "[transport][verbs]") {
  Both both;
  for (const std::size_t from : {0, 1}) both.open(from);
  for (const std::size_t from : {0, 1}) both.exchange(from, 0, 8);
  const auto before = rdma::times_called(Call::post_send);
  constexpr std::uint64_t kTimes = 33'000;  // counts have 15 bits
  for (std::uint64_t i = 1; i <= kTimes; i++)
    for (const std::size_t from : {0, 1}) both.exchange(from, i, 8);
  CHECK(rdma::times_called(Call::post_send) == before + 2 * kTimes);
  both.close();
}

TEST_CASE("rdma: an end that is gone is told to its peer; the other direction goes on",
          "[transport][verbs]") {
  const bool is_sender = GENERATE(false, true);
  CAPTURE(is_sender);
  Both both;
  for (const std::size_t from : {0, 1}) both.open(from);
  for (const std::size_t from : {0, 1}) both.exchange(from, 0);
  const auto last = pattern(1, 2000);
  if (is_sender) {
    push(*both.senders[0], 1, last);
    both.senders[0].reset();
    // Slices sent before are delivered.
    const ReceiveLink::View* view = nullptr;
    REQUIRE(eventually(*both.pair, [&] { return (view = both.receivers[0]->front()) != nullptr; }));
    CHECK(equals(*view, last));
    CHECK(both.receivers[0]->pop());
  } else {
    both.receivers[0].reset();
  }
  const auto failure = [&] {
    if (!is_sender) both.senders[0]->progress();
    if (is_sender) both.receivers[0]->front();
    return is_sender ? both.receivers[0]->failure() : both.senders[0]->failure();
  };
  REQUIRE(eventually(*both.pair, [&] { return failure() != nullptr; }));
  CHECK(failure()->kind == ErrorKind::peer_lost);
  CHECK(failure()->culprit == (is_sender ? 0U : 1U));
  for (std::uint64_t i = 1; i < 50; i++) both.exchange(1, i);
  both.close();
}

TEST_CASE("rdma: a slice that was promised room may go nowhere, whatever another link finds",
          "[transport][verbs]") {
  const bool is_lent = GENERATE(false, true);
  const bool has_failed = GENERATE(false, true);
  CAPTURE(is_lent, has_failed);
  constexpr std::size_t kBytes = 16 << 10;
  Registered memory(kBytes);
  Both both;
  for (const std::size_t from : {0, 1}) both.open(from);
  for (const std::size_t from : {0, 1}) both.exchange(from, 0);
  REQUIRE(both.senders[0]->has_room());
  if (has_failed) {
    both.receivers[1]->offer(memory.data.data(), kBytes);
    both.receivers[1]->revoke();
  } else {
    both.receivers[0].reset();
    REQUIRE(eventually(*both.pair, [&] {
      both.receivers[1]->front();
      return both.senders[0]->failure() != nullptr;
    }));
  }
  if (is_lent) {
    both.senders[0]->lend(header(1, kBytes), memory.data.data());
  } else {
    both.senders[0]->room(kBytes);
    both.senders[0]->push(header(1, kBytes));
  }
  REQUIRE(both.senders[0]->failure() != nullptr);
  CHECK(both.senders[0]->failure()->kind ==
        (has_failed ? ErrorKind::aborted : ErrorKind::peer_lost));
  for (std::uint64_t i = 1; i < 20 && !has_failed; i++) both.exchange(1, i);
  both.close(has_failed ? 1 : 0);
}

TEST_CASE("rdma: nothing is told to a sender that has left", "[transport][verbs]") {
  Both both;
  both.open(0);
  // One credit message covers this many when there is no other traffic.
  for (std::uint64_t i = 0; i < verbs::kCreditBatch; i++) both.exchange(0, i);
  both.senders[0].reset();
  const auto before = rdma::times_called(Call::post_send);
  REQUIRE(eventually(*both.pair, [&] {
    CHECK(both.receivers[0]->front() == nullptr);
    return both.receivers[0]->failure() != nullptr;
  }));
  // Retries would fail until the whole rank seemed lost.
  CHECK(rdma::times_called(Call::post_send) == before);
  CHECK_THAT(both.receivers[0]->failure()->message, Catch::Contains("rank 0 has left"));
  both.close();
}

TEST_CASE("rdma: what nobody takes is told to its sender; the other direction goes on",
          "[transport][verbs]") {
  Both both;
  both.open(0);
  both.exchange(0, 0);
  // Rank 1's link to rank 0 arrives after rank 0 has given it up, before anybody looks at it.
  const LinkId id{both.pair->communicator, 1, 0, 0};
  both.senders[1] = both.pair->of(1).open_send(id, both.pair->waiters[1]).value();
  REQUIRE(eventually(*both.pair, [&] { return both.senders[1]->has_room(); }));
  both.pair->of(0).forget(both.pair->communicator);
  REQUIRE(eventually(*both.pair, [&] {
    both.senders[0]->has_room();
    both.senders[0]->progress();
    both.senders[1]->has_room();
    both.senders[1]->progress();
    return both.senders[1]->failure() != nullptr;
  }));
  CHECK(both.senders[1]->failure()->kind == ErrorKind::peer_lost);
  for (std::uint64_t i = 1; i < 20; i++) both.exchange(0, i);
  both.close();
}

TEST_CASE("rdma: once either direction's memory was taken back no peer writes there any more",
          "[transport][verbs]") {
  constexpr std::size_t kBytes = 64 << 10;
  Registered place(4 * kBytes);
  const bool is_lent = GENERATE(false, true);
  Both both;
  for (const std::size_t from : {0, 1}) both.open(from);
  for (const std::size_t from : {0, 1}) both.exchange(from, 0);
  const auto pairs = rdma::objects().pairs;
  rdma::plug(false);
  if (is_lent)
    both.senders[1]->lend(header(1, kBytes), place.data.data());
  else
    both.receivers[0]->offer(place.data.data(), kBytes);
  // The end at which rank 1 has that memory; its registrations for the other direction go with it.
  both.senders[1]->revoke();
  both.receivers[0]->revoke();
  CHECK(rdma::objects().pairs == pairs - 1);
  CHECK(both.senders[1]->drained());
  for (auto* const failure : {both.senders[1]->failure(), both.receivers[0]->failure()}) {
    REQUIRE(failure != nullptr);
    CHECK(failure->kind == ErrorKind::aborted);
  }
  rdma::plug(true);
  both.close(1);
}

TEST_CASE("rdma: what was announced and is not lent is let go with the call that failed",
          "[transport][verbs]") {
  const std::vector<std::byte> message(2 * verbs::QueuePair::kWorthRegistering);
  Both both;
  for (const std::size_t from : {0, 1}) both.open(from);
  for (const std::size_t from : {0, 1}) both.exchange(from, 0);
  both.senders[0]->announce(message.data(), message.size(), nullptr);
  auto announced = kShared;
  announced.registrations++;
  CHECK(rdma::objects() == announced);
  both.senders[0]->revoke();
  CHECK(rdma::objects() == kShared);
  // Nobody reads it, so the queue pair may stay.
  CHECK(both.senders[0]->failure() == nullptr);
  both.close();
}

TEST_CASE("rdma: where confirmations are late credits and offers wait, and none is lost",
          "[transport][verbs]") {
  const bool is_offered = GENERATE(false, true);
  CAPTURE(is_offered);
  constexpr std::size_t kBytes = 16 << 10;
  Registered place(kBytes);
  Both both;
  both.open(0);
  both.exchange(0, 0);
  rdma::confirm_late(1);  // rank 1's credits are late
  std::uint64_t number = 1;
  const auto is_stuck = [&] {
    for (int looks = 0; looks < 1000; looks++)
      if (both.senders[0]->has_room()) return false;
    return true;
  };
  for (; number < 1000 && !is_stuck(); number++) {
    if (is_offered) both.receivers[0]->offer(place.data.data(), kBytes);
    both.exchange(0, number, kBytes);
  }
  CHECK(number < 1000);
  CHECK(both.receivers[0]->front() == nullptr);
  REQUIRE(both.receivers[0]->failure() == nullptr);
  rdma::confirm_all();
  for (const auto end = number + 50; number < end; number++) {
    CHECK(both.receivers[0]->front() == nullptr);  // looking sends credits that are due
    both.exchange(0, number, kBytes);
  }
  both.close(is_offered ? 1 : 0);
}

TEST_CASE("rdma: a direction that cannot be made goes another way, also while both are made",
          "[transport][verbs]") {
  constexpr std::pair<Call, std::uint64_t> kCalls[] = {{Call::reg_mr, 4},
                                                       {Call::create_comp_channel, 2},
                                                       {Call::create_cq, 2},
                                                       {Call::modify_qp, 6},
                                                       {Call::post_recv, 2}};
  for (const auto& [call, most] : kCalls)
    for (std::uint64_t number = 1; number <= most; number++)
      for (const bool at_once : {false, true}) {
        CAPTURE(to_string(call), number, at_once);
        Pair::Setting setting;
        setting.next = find_transport("tcp");
        Both both(setting);
        rdma::fail(call, ENOMEM, number);
        both.open(0);
        if (!at_once) both.exchange(0, 0);
        both.open(1);
        for (std::uint64_t i = 1; i < 20; i++)
          for (const std::size_t from : {0, 1}) both.exchange(from, i);
        both.close();
      }
}

TEST_CASE("rdma: so many links as there is slot memory for use RDMA, the rest TCP",
          "[transport][verbs]") {
  const auto most = GENERATE(1U, 2U, 3U, 5U);
  CAPTURE(most);
  Pair::Setting setting;
  setting.next = find_transport("tcp");
  setting.slot_memory_bytes = most * verbs::SlotMemory::kBytes + 1;
  Both both(setting);
  std::vector<std::pair<std::unique_ptr<SendLink>, std::unique_ptr<ReceiveLink>>> earlier;
  for (std::uint16_t link = 0; link < 8; link++) {
    const std::size_t from = link % 2;
    if (both.senders[from])
      earlier.emplace_back(std::move(both.senders[from]), std::move(both.receivers[from]));
    both.open(from, link / 2);
    for (std::uint64_t i = 0; i < 20; i++) both.exchange(from, i);
    // Both ends count.
    const std::size_t taken = std::min<std::size_t>(link + 1U, most);
    CHECK(rdma::objects().registrations == 2 * taken);
    CHECK(rdma::objects().pairs == 2 * ((taken + 1) / 2));
    CHECK(both.pair->of(from).gave_up(static_cast<std::uint32_t>(1 - from)) == (link >= most));
  }
  earlier.clear();
  both.close();
}

TEST_CASE("rdma: a bit that flips in an offered place is found before anything is written there",
          "[transport][verbs]") {
  constexpr std::size_t kBytes = 16 << 10;
  Registered place(4 * kBytes);
  for (std::size_t bit = 0; bit < 8 * sizeof(verbs::Offer); bit += 3) {
    CAPTURE(bit);
    Both both;
    both.open(0);
    both.exchange(0, 0);
    rdma::flip(bit);
    both.receivers[0]->offer(place.data.data() + kBytes, kBytes);
    REQUIRE(eventually(*both.pair, [&] {
      both.senders[0]->progress();
      return both.senders[0]->failure() != nullptr;
    }));
    CHECK(both.senders[0]->failure()->kind == ErrorKind::corrupt);
    both.receivers[0]->revoke();
    both.close(1);
  }
  CHECK(std::ranges::all_of(place.data, [](auto byte) { return byte == std::byte{}; }));
}

TEST_CASE("rdma: with checksums a bit that flips in a head is found, whatever was offered before",
          "[transport][verbs]") {
  constexpr std::size_t kBytes = 16 << 10;
  Registered place(kBytes);
  Pair::Setting setting;
  setting.checksum = true;
  // All bits outside the slice's own header, and some of those inside.
  for (std::size_t bit = 0; bit < 8 * sizeof(verbs::SlotHead); bit += bit < 64 ? 1 : 13) {
    CAPTURE(bit);
    Both both(setting);
    both.open(0);
    // The sender knows of the first four offers made after the second slice, but not of the last.
    for (std::uint64_t i = 0; i < 5; i++) {
      both.receivers[0]->offer(place.data.data(), kBytes);
      both.senders[0]->progress();
      both.exchange(0, i, i == 0 ? 10 : kBytes);
    }
    both.receivers[0]->offer(place.data.data(), kBytes);
    rdma::flip(bit, 1, sizeof(verbs::SlotHead));
    push(*both.senders[0], 5, pattern(2, 100));
    CHECK_FALSE(both.receives(0, 5, pattern(2, 100)));
    REQUIRE(both.receivers[0]->failure() != nullptr);
    CHECK(both.receivers[0]->failure()->kind == ErrorKind::corrupt);
    both.close(1);
  }
}

TEST_CASE("rdma: what one link finds for another that was looked at before ends the sleep",
          "[transport][verbs]") {
  const bool is_shared = GENERATE(false, true);
  CAPTURE(is_shared);
  Both both;
  for (const std::size_t from : {0, 1}) both.open(from);
  for (const std::size_t from : {0, 1}) both.exchange(from, 0);
  // Another queue pair of that rank.
  both.pair->open(5);
  push(*both.pair->sender, 0, pattern(0, 10));
  REQUIRE(eventually(*both.pair, [&] { return both.pair->receiver->front() != nullptr; }));
  CHECK(both.pair->receiver->pop());
  auto& waiter = *both.pair->waiters[1];
  const auto look_elsewhere = [&] {
    if (is_shared)
      both.senders[1]->progress();
    else
      CHECK(both.pair->receiver->front() == nullptr);
  };
  for (int i = 0; i < 5; i++) waiter.sleep(std::chrono::nanoseconds(0));  // old events
  waiter.prepare();
  CHECK(both.receivers[0]->front() == nullptr);
  look_elsewhere();
  push(*both.senders[0], 1, pattern(1, 10));
  look_elsewhere();
  look_elsewhere();
  const auto begin = std::chrono::steady_clock::now();
  waiter.sleep(std::chrono::seconds(20));
  CHECK(std::chrono::steady_clock::now() < begin + std::chrono::seconds(15));
  waiter.awake();
  CHECK(both.receives(0, 1, pattern(1, 10)));
  both.pair->sender.reset();
  both.pair->receiver.reset();
  both.close();
}
