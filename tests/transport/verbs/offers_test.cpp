// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/offers.hpp"

#include <array>
#include <catch2/catch.hpp>

namespace ccoll::verbs {
namespace {

std::array<std::byte, 1000> memory;

Offer offer_of(std::uint64_t begin, std::uint64_t bytes, bool is_of_one) {
  return {begin, bytes, reinterpret_cast<std::uint64_t>(memory.data()), 0, is_of_one, 0, 0};
}

TEST_CASE("offers: a slice goes where the receiver wants it, if all of it fits there", "[unit]") {
  MadeOffers made;
  TakenOffers taken;
  CHECK(taken.take(made.make(offer_of(100, 200, false), nullptr)));
  CHECK(taken.seen() == 1);
  CHECK(taken.for_slice(0, 100) == nullptr);
  REQUIRE(taken.for_slice(150, 150) != nullptr);
  CHECK(taken.for_slice(150, 151) == nullptr);
  CHECK(made.place_of(150, 150) == memory.data() + 50);
  CHECK(made.place_of(150, 151) == nullptr);
  CHECK(made.place_of(99, 1) == nullptr);
  CHECK(taken.for_slice(300, 1) == nullptr);
  CHECK(taken.empty());
  made.drop_before(299);
  CHECK_FALSE(made.empty());
  made.drop_before(300);
  CHECK(made.empty());
}

TEST_CASE("offers: one for a single slice serves no shorter one", "[unit]") {
  MadeOffers made;
  TakenOffers taken;
  REQUIRE(taken.take(made.make(offer_of(0, 100, true), nullptr)));
  CHECK(taken.for_slice(0, 99) == nullptr);
  CHECK(taken.for_slice(0, 100) != nullptr);
}

TEST_CASE("offers: a flipped bit is found, and few are made before the sender has seen them",
          "[unit]") {
  MadeOffers made;
  TakenOffers taken;
  Offer offer = made.make(offer_of(0, 100, false), nullptr);
  offer.address ^= 1;
  CHECK_FALSE(taken.take(offer));
  CHECK(taken.empty());
  CHECK_FALSE(made.has_seen(2));
  CHECK(made.has_seen(1));
  for (std::uint32_t i = 0; i < kOffers; i++) {
    CHECK(made.has_room());
    made.make(offer_of(100 * i, 100, false), nullptr);
  }
  CHECK_FALSE(made.has_room());
  CHECK_FALSE(made.has_seen(0));
  CHECK(made.has_seen(1 + kOffers));
  CHECK(made.has_room());
}

}  // namespace
}  // namespace ccoll::verbs
