// SPDX-License-Identifier: Apache-2.0
#include "comm/groups/births.hpp"

#include <catch2/catch.hpp>
#include <set>

#include "engine/mix.hpp"

namespace ccoll {
namespace {

using Catch::Matchers::Contains;

constexpr std::uint64_t kParent = 77;

/// Stands for the new communicator: notes the failures that end it.
class Ends final : public ControlObserver {
 public:
  void failed(std::uint64_t communicator, const Failure& failure) override {
    ended.push_back(communicator);
    CHECK(failure.message == "over");
  }
  void left(std::uint32_t /*rank*/) override {}
  void lost(std::uint32_t /*rank*/, const Failure& /*failure*/) override {}
  std::optional<Failure> compare(std::uint32_t /*peer*/, const Waiting& /*waiting*/) override {
    return std::nullopt;
  }
  bool has_begun(std::uint64_t /*sequence*/) override { return false; }
  void in_cycle(std::uint64_t /*sequence*/, const std::string& /*cycle*/) override {}

  std::vector<std::uint64_t> ended;  ///< the communicators
};

/// The announcement of a subgroup by a rank that has made it that many times before.
Waiting announced(const Ranks& ranks, std::uint64_t times = 0) {
  return {kParent, times, {.count = mix_ranks(ranks)}, "a list"};
}

/// The ids of both groups, if the announcement contradicts this rank's.
std::optional<std::pair<std::uint64_t, std::uint64_t>> compared(const Births& births, Rank peer,
                                                                const Waiting& announcement) {
  std::optional<std::pair<std::uint64_t, std::uint64_t>> ids;
  births.compare(peer, announcement, [&](const Making& mine, std::uint64_t theirs) {
    ids = {mine.id, theirs};
  });
  return ids;
}

}  // namespace

TEST_CASE("births: ids differ by purpose and number, and are the same on all ranks",
          "[comm][unit]") {
  const Births births(kParent);
  std::set<std::uint64_t> ids;
  for (std::uint64_t number = 0; number < 10; number++) {
    ids.insert(births.duplicate_id(number));
    ids.insert(births.subgroup_id(1, number));
    ids.insert(births.subgroup_id(2, number));
    ids.insert(births.shrink_id(number, 1));
    for (const int color : {0, 1, 2}) ids.insert(births.split_id(number, color));
  }
  CHECK(ids.size() == 70);
  CHECK(Births(kParent).duplicate_id(3) == births.duplicate_id(3));
  CHECK(Births(kParent + 1).duplicate_id(3) != births.duplicate_id(3));
}

TEST_CASE("births: children are numbered from 1 on", "[comm][unit]") {
  Births births(kParent);
  OwnerFlag flag;
  const auto owned = flag.try_take();
  REQUIRE(owned);
  CHECK(births.next_child(*owned) == 1);
  CHECK(births.next_child(*owned) == 2);
}

TEST_CASE("births: each attempt to make a list gets an id, unless it did not count",
          "[comm][unit]") {
  Births births(kParent);
  const Ranks list = {0, 2};
  const auto attempt = [&](const Ranks& ranks, bool counts) {
    const auto begun = births.begin_subgroup(ranks, false);
    REQUIRE(begun);
    births.end_subgroup(counts);
    CHECK(begun->id == births.subgroup_id(mix_ranks(ranks), begun->times));
    return begun->times;
  };
  CHECK(attempt(list, false) == 0);
  CHECK(attempt(list, true) == 0);
  CHECK(attempt({0, 1}, true) == 0);
  CHECK(attempt(list, true) == 1);
  CHECK(attempt(list, true) == 2);
}

TEST_CASE("births: one thread at a time makes a subgroup", "[comm][unit]") {
  Births births(kParent);
  REQUIRE(births.begin_subgroup({0, 2}, false));
  const auto second = births.begin_subgroup({0, 1, 2}, false);
  REQUIRE_FALSE(second);
  CHECK(second.error().kind == ErrorKind::invalid_argument);
  CHECK_THAT(second.error().message, Contains("ranks 0, 2") && Contains("ranks 0-2"));
  births.end_subgroup(true);
  CHECK(births.begin_subgroup({0, 1, 2}, false));
}

TEST_CASE("births: the parent's end ends the new communicator while this rank waits in it",
          "[comm][unit]") {
  const bool was_broken = GENERATE(false, true);
  const Failure over{ErrorKind::aborted, "over", std::nullopt};
  Births births(kParent);
  births.end_making(over);
  const auto begun = births.begin_subgroup({0, 2}, was_broken);
  REQUIRE(begun);
  births.end_making(over);
  auto made = std::make_shared<Ends>();
  births.wait_in(made);
  births.end_unwarned_making(over);
  CHECK(made->ended.size() == (was_broken ? 0 : 1));
  births.end_making(over);
  CHECK(made->ended.back() == begun->id);
  const auto ends = made->ended.size();
  SECTION("not once it is destroyed") {
    made.reset();
    births.end_making(over);
  }
  SECTION("not once the making has ended") {
    births.end_subgroup(true);
    births.end_making(over);
    births.end_unwarned_making(over);
    CHECK(made->ended.size() == ends);
  }
}

TEST_CASE("births: lists that wait for each other contradict", "[comm][unit]") {
  Births births(kParent);
  const Ranks mine = {0, 1, 2};
  const Ranks theirs = {0, 1};
  CHECK_FALSE(compared(births, 1, announced(theirs)));
  // This rank has made their list once.
  REQUIRE(births.begin_subgroup(theirs, false));
  births.end_subgroup(true);
  const auto begun = births.begin_subgroup(mine, false);
  REQUIRE(begun);
  CHECK_FALSE(compared(births, 1, announced(mine)));
  CHECK_FALSE(compared(births, 1, announced(theirs)));
  CHECK_FALSE(compared(births, 3, announced(theirs, 1)));
  const auto ids = compared(births, 1, announced(theirs, 1));
  REQUIRE(ids);
  CHECK(ids->first == begun->id);
  CHECK(ids->second == births.subgroup_id(mix_ranks(theirs), 1));
  births.end_subgroup(false);
  CHECK_FALSE(compared(births, 1, announced(theirs, 1)));
}

TEST_CASE("births: shrinks are counted by the ranks that they exclude", "[comm][unit]") {
  Births births(kParent);
  const auto shrink = [&](const Ranks& excluded, bool well) {
    const auto begun = births.begin_shrink(excluded);
    REQUIRE(begun);
    births.end_shrink(excluded, well);
    return std::pair(begun->well, begun->attempts);
  };
  using Counts = std::pair<std::uint64_t, std::uint32_t>;
  CHECK(shrink({}, false) == Counts(0, 0));
  CHECK(shrink({}, false) == Counts(0, 1));
  CHECK(shrink({}, true) == Counts(0, 2));
  CHECK(shrink({}, true) == Counts(1, 0));
  CHECK(shrink({3}, true) == Counts(0, 0));
  CHECK(shrink({}, true) == Counts(2, 0));
  CHECK(shrink({3}, true) == Counts(1, 0));
}

TEST_CASE("births: one thread at a time shrinks", "[comm][unit]") {
  Births births(kParent);
  REQUIRE(births.begin_shrink({}));
  const auto second = births.begin_shrink({3});
  REQUIRE_FALSE(second);
  CHECK(second.error().kind == ErrorKind::invalid_argument);
  births.end_shrink({}, false);
  CHECK(births.begin_shrink({3}));
}

TEST_CASE("births: a roll call can be ended while it is awaited, but its outcome stays",
          "[comm][unit]") {
  const Failure why{ErrorKind::aborted, "destroyed", std::nullopt};
  Births births(kParent);
  births.abort_shrink(why);
  REQUIRE(births.begin_shrink({}));
  const auto count = std::make_shared<Headcount>();
  births.await(count);
  SECTION("it has no outcome") {
    births.abort_shrink(why);
    const auto gone = count->state.lock()->gone;
    REQUIRE(gone);
    REQUIRE_FALSE(*gone);
    CHECK(gone->error().message == "destroyed");
  }
  SECTION("it has one") {
    count->state.lock()->gone = std::vector<std::uint32_t>{3};
    births.abort_shrink(why);
    CHECK(**count->state.lock()->gone == std::vector<std::uint32_t>{3});
  }
  SECTION("it is over") {
    births.end_shrink({}, false);
    births.abort_shrink(why);
    CHECK_FALSE(count->state.lock()->gone);
  }
}

}  // namespace ccoll
