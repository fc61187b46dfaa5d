// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/slot_counts.hpp"

#include <catch2/catch.hpp>

namespace ccoll::verbs {

TEST_CASE("slot counts: a sender uses all slots, and gets back those that the receiver has popped",
          "[unit]") {
  SentSlots sent;
  ReceivedSlots received;
  // Far beyond what a message's bits can count.
  for (std::uint64_t i = 1; i <= 3 * std::uint64_t{kCountMask}; i++) {
    REQUIRE(sent.has_room());
    sent.push(10);
    REQUIRE(received.arrive(counted(sent.pushed()), 50));
    CHECK(received.front_bytes() == 50);
    received.pop(10);
    if (received.untold() == kCreditBatch) REQUIRE(sent.take_credits(counted(received.tell())));
  }
  CHECK(sent.bytes() == received.popped_bytes());
  CHECK(sent.take_credits(counted(received.tell())));
  CHECK(sent.are_free());
  for (std::uint32_t i = 0; i < kSlots; i++) sent.push(0);
  CHECK_FALSE(sent.has_room());
}

TEST_CASE("slot counts: credits for slices that were not pushed are refused", "[unit]") {
  SentSlots sent;
  sent.push(1);
  CHECK_FALSE(sent.take_credits(2));
  CHECK(sent.take_credits(1));
  CHECK(sent.take_credits(1));
  CHECK_FALSE(sent.take_credits(0));
}

TEST_CASE("slot counts: a slice out of order, or without a free slot, is refused", "[unit]") {
  ReceivedSlots received;
  CHECK_FALSE(received.arrive(2, 1));
  for (std::uint32_t i = 1; i <= kSlots; i++) CHECK(received.arrive(i, i));
  received.pop(1);
  CHECK(received.front_bytes() == 2);
  CHECK_FALSE(received.arrive(kSlots + 1, 1));  // the sender cannot know
  CHECK(received.tell() == 1);
  CHECK(received.arrive(kSlots + 1, 1));
}

}  // namespace ccoll::verbs
