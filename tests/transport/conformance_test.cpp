// SPDX-License-Identifier: Apache-2.0
// One suite for every transport: the promises of transport/link.hpp.
#include <catch2/catch.hpp>
#include <thread>

#include "support/effort.hpp"
#include "support/limited_descriptors.hpp"
#include "transport/pair.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;

namespace {

/// Calls send(0), send(1), .. while there is room; returns the count, at most kEndless, after a
/// while without room: sockets take some more now and then.
constexpr std::uint64_t kEndless = 1000;
std::uint64_t fill(Pair& pair, const std::function<void(std::uint64_t)>& send) {
  auto& sender = *pair.sender;
  REQUIRE(eventually(pair, [&] { return sender.has_room(); }));
  std::uint64_t sent = 0;
  auto since = std::chrono::steady_clock::now();
  // Both a time and a number of looks: this thread may have lost its core all that time.
  for (int looks = 0; looks < 1000 || std::chrono::steady_clock::now() - since < 300ms; looks++) {
    sender.progress();
    if (!sender.has_room()) continue;
    if (sent == kEndless) break;
    send(sent++);
    since = std::chrono::steady_clock::now();
    looks = 0;
  }
  return sent;
}

}  // namespace

TEST_CASE("link: slices of any size arrive whole, in order, sent, pushed, lent or offered a place",
          "[transport][conformance]") {
  for (const auto& kind : usable_transports()) {
    const auto seed = std::random_device{}();
    CAPTURE(kind.name, seed);
    Pair pair(kind);
    pair.open();
    std::mt19937_64 random(seed);
    constexpr std::uint64_t kSlices = 400;
    std::vector<std::vector<std::byte>> sent;
    std::vector<std::byte> place;
    for (std::uint64_t i = 0; i < kSlices; i++) {
      const auto scale = std::uniform_int_distribution(0, 18)(random);
      sent.push_back(
          pattern(i, std::min(1 + random() % (std::size_t{1} << scale), kCommonSliceBytes)));
    }
    std::uint64_t pushed = 0, popped = 0;
    bool offered = false, right = true;
    REQUIRE(eventually(pair, [&] {
      const bool has_room = pushed < kSlices && pair.sender->has_room();
      if (pushed < kSlices && pushed % 3 == 0) {
        auto data = sent[pushed];
        const auto became = pair.sender->send(header(pushed, data.size()), data.data());
        std::ranges::fill(data, std::byte{0});  // it was copied
        right &= !has_room || became != SendLink::Sent::no_room;
        if (became != SendLink::Sent::no_room) pushed++;
      } else if (has_room) {
        if (pushed % 3 == 1)
          push(*pair.sender, pushed, sent[pushed]);
        else
          pair.sender->lend(header(pushed, sent[pushed].size()), sent[pushed].data());
        pushed++;
      }
      if (popped < kSlices && !offered && popped % 3 == 0) {
        place.assign(sent[popped].size(), std::byte{0});
        pair.receiver->offer(place.data(), place.size());
      }
      offered = true;
      if (const auto* view = pair.receiver->front()) {
        right = right && view->header.sequence == popped && equals(*view, sent[popped]) &&
                pair.receiver->begin_read();
        right &= pair.receiver->pop();
        popped++;
        offered = false;
      }
      return popped == kSlices;
    }));
    CHECK(right);
    CHECK(eventually(pair, [&] { return pair.sender->drained(); }));
    CHECK(pair.receiver->front() == nullptr);
    CHECK(pair.receiver->failure() == nullptr);
    CHECK(pair.sender->failure() == nullptr);
  }
}

TEST_CASE("link: a slice that was peeked at can still be offered a place",
          "[transport][conformance]") {
  for (const auto& kind : usable_transports()) {
    CAPTURE(kind.name);
    Pair pair(kind);
    pair.open();
    for (const std::size_t bytes : {0, 100, 100'000}) {
      const auto data = pattern(bytes, bytes);
      std::vector<std::byte> place(bytes);
      push(*pair.sender, bytes, data);
      const SliceHeader* peeked = nullptr;
      REQUIRE(eventually(pair, [&] { return (peeked = pair.receiver->peek()) != nullptr; }));
      CHECK(peeked->sequence == bytes);
      pair.receiver->offer(place.data(), bytes);
      const ReceiveLink::View* view = nullptr;
      REQUIRE(eventually(pair, [&] { return (view = pair.receiver->front()) != nullptr; }));
      REQUIRE(pair.receiver->begin_read());
      CHECK(equals(*view, data));
      CHECK(pair.receiver->pop());
    }
  }
}

TEST_CASE("link: an offer of another size is not used", "[transport][conformance]") {
  for (const auto& kind : usable_transports()) {
    CAPTURE(kind.name);
    Pair pair(kind);
    pair.open();
    const auto data = pattern(1, 100);
    std::vector<std::byte> place(64, std::byte{42});
    pair.receiver->offer(place.data(), 50);
    push(*pair.sender, 0, data);
    const ReceiveLink::View* view = nullptr;
    REQUIRE(eventually(pair, [&] { return (view = pair.receiver->front()) != nullptr; }));
    CHECK(equals(*view, data));
    CHECK(place == std::vector<std::byte>(64, std::byte{42}));
  }
}

TEST_CASE("link: holds at least kLinkSlots slices while nobody reads, and no endless number",
          "[transport][conformance]") {
  for (const auto& kind : usable_transports()) {
    CAPTURE(kind.name);
    Pair pair(kind);
    pair.open();
    const auto data = pattern(2, kCommonSliceBytes);
    const auto taken = fill(pair, [&](std::uint64_t i) { push(*pair.sender, i, data); });
    CHECK(taken >= kLinkSlots);
    CHECK(taken < kEndless);
    for (std::uint64_t i = 0; i < taken; i++) {
      const ReceiveLink::View* view = nullptr;
      REQUIRE(eventually(pair, [&] { return (view = pair.receiver->front()) != nullptr; }));
      REQUIRE(view->header.sequence == i);
      CHECK(pair.receiver->begin_read());
      CHECK(pair.receiver->pop());
    }
    CHECK(eventually(pair, [&] { return pair.sender->has_room(); }));
  }
}

TEST_CASE("link: what was sent before the sender left is delivered, then the link has failed",
          "[transport][conformance]") {
  for (const auto& kind : usable_transports()) {
    CAPTURE(kind.name);
    Pair pair(kind);
    pair.open();
    const auto data = pattern(3, 5000);
    push(*pair.sender, 0, data);
    push(*pair.sender, 1, data);
    REQUIRE(eventually(pair, [&] { return pair.sender->drained(); }));
    pair.sender.reset();
    for (int i = 0; i < 2; i++) {
      const ReceiveLink::View* view = nullptr;
      REQUIRE(eventually(pair, [&] { return (view = pair.receiver->front()) != nullptr; }));
      CHECK(equals(*view, data));
      CHECK(pair.receiver->begin_read());
      CHECK(pair.receiver->pop());
    }
    REQUIRE(eventually(
        pair, [&] { return !pair.receiver->front() && pair.receiver->failure() != nullptr; }));
    CHECK(pair.receiver->failure()->kind == ErrorKind::peer_lost);
    CHECK(pair.receiver->failure()->culprit == 0U);
    CHECK(pair.receiver->failure() != nullptr);
  }
}

TEST_CASE("link: what a peer sent before its process ended is delivered, then the link has failed",
          "[transport][conformance]") {
  const auto how = GENERATE(Departure::left, Departure::lost);
  const Failure why{ErrorKind::peer_lost, "rank 0 is no more", 0};
  for (const auto& kind : usable_transports()) {
    CAPTURE(kind.name, static_cast<int>(how));
    Pair pair(kind);
    pair.open();
    const auto data = pattern(3, 5000);
    push(*pair.sender, 0, data);
    push(*pair.sender, 1, data);
    REQUIRE(eventually(pair, [&] { return pair.sender->drained(); }));
    REQUIRE(eventually(pair, [&] { return pair.receiver->front() != nullptr; }));
    // The kernel closes a process's sockets, and a receiver waits for that. In shared memory nobody
    // leaves a mark, and over RDMA the news alone ends the link.
    pair.receiver->peer_gone(how, why);
    if (!kind.is_memory && kind.name != "verbs") pair.sender.reset();
    for (int i = 0; i < 2; i++) {
      const ReceiveLink::View* view = nullptr;
      REQUIRE(eventually(pair, [&] { return (view = pair.receiver->front()) != nullptr; }));
      CHECK(equals(*view, data));
      CHECK(pair.receiver->failure() == nullptr);
      CHECK(pair.receiver->begin_read());
      CHECK(pair.receiver->pop());
    }
    if (kind.name == "inproc" && how == Departure::left) continue;  // memory ends with this process
    REQUIRE(eventually(
        pair, [&] { return !pair.receiver->front() && pair.receiver->failure() != nullptr; }));
    CHECK(pair.receiver->failure()->culprit == 0U);
    if (how == Departure::lost) CHECK(pair.receiver->failure()->message == why.message);
  }
}

TEST_CASE("link: nobody comes from a peer that is lost, and there is no way to it",
          "[transport][conformance]") {
  const Failure why{ErrorKind::peer_lost, "the other rank is no more", 0};
  for (const auto& kind : usable_transports()) {
    CAPTURE(kind.name);
    Pair alone(kind);
    alone.open_receiver();
    CHECK(alone.receiver->failure() == nullptr);
    alone.receiver->peer_gone(Departure::lost, why);
    CHECK(alone.receiver->front() == nullptr);
    REQUIRE(alone.receiver->failure() != nullptr);
    CHECK(alone.receiver->failure()->message == why.message);

    Pair pair(kind);
    pair.open();
    REQUIRE(eventually(pair, [&] { return pair.sender->has_room(); }));
    pair.sender->peer_gone(Departure::lost, why);
    REQUIRE(pair.sender->failure() != nullptr);
    CHECK(pair.sender->failure()->message == why.message);
  }
}

TEST_CASE("link: a sender learns that its receiver has gone", "[transport][conformance]") {
  for (const auto& kind : usable_transports()) {
    CAPTURE(kind.name);
    Pair pair(kind);
    pair.open();
    push(*pair.sender, 0, pattern(4, 10));
    REQUIRE(eventually(pair, [&] { return pair.receiver->front() != nullptr; }));
    pair.receiver.reset();
    const auto data = pattern(5, kCommonSliceBytes);
    std::uint64_t sequence = 1;
    REQUIRE(eventually(pair, [&] {
      if (pair.sender->has_room()) push(*pair.sender, sequence++, data);
      return pair.sender->failure() != nullptr;
    }));
    CHECK(pair.sender->failure()->kind == ErrorKind::peer_lost);
    CHECK(pair.sender->failure()->culprit == 1U);
  }
}

TEST_CASE("link: once revoke has returned, nobody reads lent memory", "[transport][conformance]") {
  for (const auto& kind : usable_transports()) {
    CAPTURE(kind.name);
    Pair pair(kind);
    pair.open();
    // Until the link takes no more, so that the sender still needs some of it.
    std::vector<std::byte> lent = pattern(6, kCommonSliceBytes);
    const auto original = lent;
    const auto sequence = fill(
        pair, [&](std::uint64_t i) { pair.sender->lend(header(i, lent.size()), lent.data()); });
    CHECK(sequence < kEndless);
    const bool copies = pair.sender->drained();
    pair.sender->revoke();
    std::fill(lent.begin(), lent.end(), std::byte{0});
    // Each slice that still arrives is intact, and one of them is refused, unless the link copies
    // what it is lent.
    bool refused = false;
    std::uint64_t taken = 0;
    REQUIRE(eventually(pair, [&] {
      if (copies && taken == sequence) return true;
      const auto* view = pair.receiver->front();
      if (view == nullptr) return refused = refused || pair.receiver->failure() != nullptr;
      if (!pair.receiver->begin_read()) return refused = true;
      REQUIRE(equals(*view, original));
      CHECK(pair.receiver->pop());
      taken++;
      return false;
    }));
    CHECK(refused != copies);
  }
}

TEST_CASE(
    "link: a sleeping receiver wakes when a slice comes, a sleeping sender when there is room",
    "[transport][conformance]") {
  for (const auto& kind : usable_transports()) {
    CAPTURE(kind.name);
    Pair pair(kind);
    pair.open();
    constexpr std::uint64_t kSlices = 3000;
    const auto data = pattern(7, 3000);
    std::atomic<bool> in_time{true};
    const auto sleep_until = [&](Waiter& waiter, auto condition) {
      const auto end = std::chrono::steady_clock::now() + kPatience;
      while (!condition()) {
        waiter.prepare();
        if (!condition()) waiter.sleep(10s);
        waiter.awake();
        if (std::chrono::steady_clock::now() > end) return in_time = false, void();
      }
    };
    std::thread sender([&] {
      for (std::uint64_t i = 0; i < kSlices && in_time; i++) {
        sleep_until(*pair.waiters[0], [&] {
          pair.sender->progress();
          return pair.sender->has_room();
        });
        push(*pair.sender, i, data);
      }
      sleep_until(*pair.waiters[0], [&] {
        pair.sender->progress();
        return pair.sender->drained();
      });
    });
    std::uint64_t right = 0;
    for (std::uint64_t i = 0; i < kSlices && in_time; i++) {
      sleep_until(*pair.waiters[1], [&] { return pair.receiver->front() != nullptr; });
      if (!in_time) break;
      const auto* view = pair.receiver->front();
      right += view->header.sequence == i && equals(*view, data) && pair.receiver->begin_read() &&
               pair.receiver->pop();
    }
    sender.join();
    CHECK(in_time);
    CHECK(right == kSlices);
  }
}

TEST_CASE("link: either end may come first, and links do not mix", "[transport][conformance]") {
  for (const auto& kind : usable_transports()) {
    CAPTURE(kind.name);
    Pair pair(kind);
    std::vector<std::unique_ptr<SendLink>> senders;
    std::vector<std::unique_ptr<ReceiveLink>> receivers;
    for (std::uint16_t lane = 0; lane < 20; lane++) {
      pair.open(lane);
      senders.push_back(std::move(pair.sender));
      receivers.push_back(std::move(pair.receiver));
      push(*senders.back(), lane, pattern(lane, 100));
    }
    for (std::uint16_t lane = 0; lane < 20; lane++) {
      const ReceiveLink::View* view = nullptr;
      REQUIRE(eventually(pair, [&] {
        for (auto& sender : senders) sender->progress();
        return (view = receivers[lane]->front()) != nullptr;
      }));
      CHECK(view->header.sequence == lane);
      CHECK(equals(*view, pattern(lane, 100)));
    }
  }
}

TEST_CASE("link: who has opened one to a rank is told there, once, and wakes it",
          "[transport][conformance]") {
  constexpr std::uint16_t kLane = 3, kOther = 4;
  for (const auto& kind : usable_transports()) {
    for (const bool sender_first : {false, true}) {
      CAPTURE(kind.name, sender_first);
      Pair pair(kind);
      const auto arrivals =
          std::make_shared<Arrivals>(pair.communicator, 1, kLane, pair.waiters[1]);
      if (!sender_first) pair.of(1).listen(arrivals);
      pair.open_sender(kOther);
      const auto other = std::move(pair.sender);
      pair.open_sender(kLane);
      if (sender_first) {
        std::this_thread::sleep_for(20ms);  // time for it to arrive
        pair.of(1).listen(arrivals);
      }
      std::vector<std::uint32_t> from;
      const auto end = std::chrono::steady_clock::now() + kPatience;
      while (from.empty() && std::chrono::steady_clock::now() < end) {
        pair.waiters[1]->prepare();
        from = arrivals->take();
        if (from.empty()) pair.waiters[1]->sleep(10s);
        pair.waiters[1]->awake();
      }
      CHECK(from == std::vector<std::uint32_t>{0});
      push(*pair.sender, 0, pattern(1, 100));
      pair.open_receiver(kLane);
      CHECK(eventually(pair, [&] { return pair.receiver->front() != nullptr; }));
      CHECK(arrivals->take().empty());
      pair.of(1).forget(pair.communicator);
    }
  }
}

TEST_CASE("link: one that this rank has opened first is no news to it",
          "[transport][conformance]") {
  for (const auto& kind : usable_transports()) {
    CAPTURE(kind.name);
    Pair pair(kind);
    const auto arrivals = std::make_shared<Arrivals>(pair.communicator, 1, 0, pair.waiters[1]);
    pair.of(1).listen(arrivals);
    pair.open_receiver();
    pair.open_sender();
    push(*pair.sender, 0, pattern(1, 100));
    CHECK(eventually(pair, [&] { return pair.receiver->front() != nullptr; }));
    CHECK(arrivals->take().empty());
    pair.of(1).forget(pair.communicator);
  }
}

TEST_CASE("link: more than a rank can hold that has not made the call wait, and none is lost",
          "[transport][conformance]") {
  constexpr std::uint16_t kLinks = 110;
  const LimitedDescriptors few(4 * (kLinks - 10));
  for (const auto& kind : usable_transports()) {
    CAPTURE(kind.name);
    Pair pair(kind);
    std::vector<std::unique_ptr<SendLink>> senders;
    for (std::uint16_t lane = 0; lane < kLinks; lane++) {
      pair.open_sender(lane);
      senders.push_back(std::move(pair.sender));
    }
    // Waits until the receiver holds all it can; some other senders may have heard that by then.
    const auto with_room = [&] {
      return std::ranges::count_if(senders, [](const auto& link) { return link->has_room(); });
    };
    CHECK(eventually(pair, [&] { return with_room() >= kLinks / 4; }));
    for (std::uint16_t lane = 0; lane < kLinks; lane++) {
      CAPTURE(lane);
      pair.open_receiver(lane);
      auto& sender = *senders[lane];
      REQUIRE(eventually(pair, [&] { return sender.has_room() || sender.failure() != nullptr; }));
      const auto* const failure = sender.failure();
      CAPTURE(failure == nullptr ? "" : failure->message);
      REQUIRE(failure == nullptr);
      const auto data = pattern(lane, 100);
      push(sender, 0, data);
      const ReceiveLink::View* view = nullptr;
      REQUIRE(eventually(pair, [&] {
        sender.progress();
        return (view = pair.receiver->front()) != nullptr;
      }));
      CHECK(equals(*view, data));
    }
  }
}

TEST_CASE("link: one that was not opened before its communicator ended has nobody to read it",
          "[transport][conformance]") {
  for (const auto& kind : usable_transports()) {
    for (const bool comes_late : {false, true}) {
      CAPTURE(kind.name, comes_late);
      Pair pair(kind);
      if (!comes_late) pair.open_sender();
      pair.of(1).forget(pair.communicator);
      if (comes_late) pair.open_sender();
      const auto data = pattern(5, kCommonSliceBytes);
      std::uint64_t sequence = 0;
      REQUIRE(eventually(pair, [&] {
        if (pair.sender->has_room()) push(*pair.sender, sequence++, data);
        return pair.sender->failure() != nullptr;
      }));
      CHECK(pair.sender->failure()->kind == ErrorKind::peer_lost);
    }
  }
}

TEST_CASE("link: hundreds come and go", "[transport][conformance]") {
  const std::uint16_t links = testing::by_effort(200, 1000, 1000);
  for (const auto& kind : usable_transports()) {
    CAPTURE(kind.name);
    Pair pair(kind);
    const auto data = pattern(8, 100);
    std::uint64_t right = 0;
    for (std::uint16_t lane = 0; lane < links; lane++) {
      pair.open(lane);
      push(*pair.sender, lane, data);
      const ReceiveLink::View* view = nullptr;
      REQUIRE(eventually(pair, [&] { return (view = pair.receiver->front()) != nullptr; }));
      right += view->header.sequence == lane && equals(*view, data) &&
               pair.receiver->begin_read() && pair.receiver->pop();
      // Either end may be the first to go.
      if (lane % 2 == 0) pair.sender.reset();
      pair.receiver.reset();
      pair.sender.reset();
    }
    CHECK(right == links);
  }
}
