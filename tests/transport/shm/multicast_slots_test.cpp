// SPDX-License-Identifier: Apache-2.0
// Slots that a sender shares between several receivers.
#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>

#include "support/effort.hpp"
#include "transport/pair.hpp"
#include "transport/shm/hand_over.hpp"
#include "transport/shm/link.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace ccoll::testing::hand_over;
using namespace std::chrono_literals;

TEST_CASE("shm: a slice for several is written once, and stays until all have read it",
          "[transport][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Pair pair(shm_kind(), {.others = 1});
  struct Way {
    std::unique_ptr<SendLink> sender;
    std::unique_ptr<ReceiveLink> receiver;
    std::uint64_t popped = 0;
  };
  std::array<Way, 3> ways;
  for (std::uint16_t lane = 0; lane < ways.size(); lane++) {
    pair.open(lane);
    ways[lane] = {std::move(pair.sender), std::move(pair.receiver), 0};
    REQUIRE(eventually(pair, [&] { return ways[lane].sender->has_room(); }));
  }
  auto& first = *ways[0].sender;
  CHECK(first.shared_room(nullptr, 100) == nullptr);
  CHECK(first.shared_room(nullptr, shm::kSlotBytes + 1) == nullptr);
  std::vector<std::byte> own(4096);
  CHECK_FALSE(first.push_shared(header(0, 4096), own.data()));

  const auto slices = static_cast<std::uint64_t>(by_effort(300, 2000, 20'000));
  std::vector<std::vector<std::byte>> sent;
  std::uint64_t shared_slices = 0;
  bool right = true;
  const auto step = [&] {
    const bool room = std::ranges::all_of(ways, [](auto& way) { return way.sender->has_room(); });
    if (room && sent.size() < slices && random() % 2) {
      const auto number = sent.size(), bytes = 1024 + random() % 60'000;
      sent.push_back(pattern(number, bytes));
      auto* const shared = first.shared_room(nullptr, bytes);
      shared_slices += shared != nullptr;
      if (shared != nullptr) std::ranges::copy(sent.back(), shared);
      for (auto& way : ways) {
        if (shared != nullptr && way.sender->push_shared(header(number, bytes), shared)) continue;
        push(*way.sender, number, sent.back());
      }
    }
    auto& way = ways[random() % ways.size()];
    if (const auto* view = way.receiver->front()) {
      right = right && view->header.sequence == way.popped && equals(*view, sent[way.popped]) &&
              way.receiver->begin_read() && way.receiver->pop();
      way.popped++;
    }
  };
  REQUIRE(eventually(pair, [&] {
    // Each look yields the processor, and many threads may want it.
    for (int steps = 0; steps < 100 && right; steps++) step();
    return !right || std::ranges::all_of(ways, [&](auto& w) { return w.popped == slices; });
  }));
  CHECK(right);
  // Most are shared: there are as many shared slots as a ring has lines.
  CHECK(shared_slices > slices / 2);
}

TEST_CASE("shm: a sender is far ahead where ranks outnumber cores, and of short messages",
          "[transport]") {
  const std::vector<std::byte> data(40'000);
  // By how many slices it gets ahead of a reader that takes one whenever there is no room.
  const auto ahead = [&](Pair& pair, std::uint32_t& under_way,
                         std::uint64_t turns = 2 * shm::Ring::kLines) {
    const auto fill = [&] {
      for (; pair.sender->has_room(); under_way++) push(*pair.sender, 0, data);
    };
    for (std::uint64_t turn = 0; turn < turns; turn++, under_way--) {
      fill();
      REQUIRE(pair.receiver->front() != nullptr);
      REQUIRE(pair.receiver->begin_read());
      REQUIRE(pair.receiver->pop());
    }
    fill();
    return under_way;
  };
  for (const bool oversubscribed : {false, true}) {
    CAPTURE(oversubscribed);
    Pair pair(shm_kind(), {.oversubscribed = oversubscribed});
    pair.open();
    REQUIRE(eventually(pair, [&] { return pair.sender->has_room(); }));
    std::uint32_t under_way = 0;
    // Not before the link has been used for a while.
    CHECK(ahead(pair, under_way) == kLinkSlots);
    const auto few = oversubscribed ? shm::Ring::kLines : kLinkSlots;
    CHECK(ahead(pair, under_way, shm::kSlicesBeforeGrowth) == few);
    CHECK(ahead(pair, under_way) == few);
    pair.sender->announce(nullptr, 1 << 20, nullptr);
    CHECK(ahead(pair, under_way) == shm::Ring::kLines);
    pair.sender->announce(nullptr, 64 << 20, nullptr);
    CHECK(ahead(pair, under_way) == few);
  }
}

TEST_CASE("shm: two ranks have no shared slots", "[transport]") {
  Pair pair(shm_kind());
  pair.open();
  REQUIRE(eventually(pair, [&] { return pair.sender->has_room(); }));
  CHECK(pair.sender->shared_room(nullptr, 4096) == nullptr);
}
