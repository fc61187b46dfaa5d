// SPDX-License-Identifier: Apache-2.0
// Groups without communicators: what they make are parts, too.
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

#include "ccoll/call_group.hpp"
#include "comm/groups/groups.hpp"
#include "comm/parts.hpp"
#include "engine/mix.hpp"
#include "support/ranks.hpp"

namespace ccoll::test {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using ccoll::testing::run_threads;

/// A communicator that another made. It looks at its limits often.
struct ChildRank : Parts {
  using Parts::Parts;

  Clock::time_point supervise(Owned owned, Clock::time_point now) override {
    return std::min(Parts::supervise(owned, now), now + 1ms);
  }
  void slept(Owned /*owned*/, std::vector<Rank> /*awaited*/,
             Clock::duration /*time*/) noexcept override {
    if (is_late_soon) pass(100ms);
  }

  bool is_late_soon = false;  ///< a wait reaches its time limit soon
};

/// A rank that notes what its groups make.
struct ParentRank : Parts {
  ParentRank(Rank rank, const std::vector<std::uint32_t>& group, std::uint64_t communicator,
             const CommunicatorOptions& options = {})
      : Parts(rank, group, communicator, options) {
    make_child = [this](std::uint64_t id, const CommunicatorOptions& asked,
                        const Group& ranks) -> Result<Child> {
      ids.push_back(id);
      if (on_make) CCOLL_TRY(on_make());
      const auto child =
          children.emplace_back(std::make_shared<ChildRank>(*this, id, asked, ranks));
      if (on_made) on_made(*child);
      return as_child(child);
    };
  }

  std::vector<std::uint64_t> ids;  ///< that were to be made
  std::vector<std::shared_ptr<ChildRank>> children;
  std::function<Status()> on_make;
  std::function<void(ChildRank&)> on_made;
};

/// Transports remember ended communicators, so each test has its own numbers.
std::uint64_t next_communicator() {
  static std::uint64_t last = 1000;
  return ++last;
}

/// Rank 1 of 4, which are ranks 2, 3, 5 and 7 of the job.
struct OneRank : ParentRank {
  explicit OneRank(const CommunicatorOptions& options = {})
      : ParentRank(1, {2, 3, 5, 7}, next_communicator(), options) {}
};

/// A group whose rank meets nobody, and one whose other rank does not come.
const std::array kMyself{1};
const std::array kBothOfUs{1, 3};

/// With a limit that a wait in vain reaches soon.
GroupOptions briefly() {
  GroupOptions options;
  options.timeout = 3s;
  return options;
}

/// The end of the rank's roll calls: these ranks of the job are gone.
void lose(ParentRank& rank, std::vector<std::uint32_t> gone) {
  rank.control->on_roll = [gone = std::move(gone)](Headcount& count) {
    count.state.lock()->gone = gone;
  };
}

Failure failure_of(const Result<Child>& made) {
  REQUIRE_FALSE(made);
  return made.error();
}

}  // namespace

TEST_CASE("groups: wrong arguments are refused, make nothing, tell nobody and use up no id",
          "[comm][unit]") {
  OneRank rank;
  const auto refused = [&](const auto& made) {
    REQUIRE_FALSE(made);
    CHECK(made.error().kind == ErrorKind::invalid_argument);
    return made.error().message;
  };
  const auto subgroup = [&](std::vector<int> ranks) {
    return refused(rank.groups.subgroup(ranks, {}));
  };
  CHECK_THAT(refused(rank.groups.split(-2, 0, {})), Contains("colour -2 is negative"));
  CHECK_THAT(subgroup({}), Contains("the list is empty"));
  CHECK_THAT(subgroup({1, 4}), Contains("rank 4") && Contains("0 to 3"));
  CHECK_THAT(subgroup({-1, 1}), Contains("rank -1"));
  CHECK_THAT(subgroup({1, 3, 1}), Contains("rank 1 is in the list twice"));
  CHECK_THAT(subgroup({0, 2, 3}), Contains("rank 1 calls it but is not in the list"));
  {
    CallGroup group;
    CHECK_THAT(refused(rank.groups.split(0, 0, {})), Contains("cannot be part of a group"));
    CHECK_THAT(refused(rank.groups.subgroup(kMyself, {})), Contains("cannot be part of a group"));
    CHECK_THAT(refused(rank.groups.shrink({})), Contains("cannot be part of a group"));
  }
  CHECK(rank.ids.empty());
  CHECK(rank.control->floods.empty());
  CHECK(rank.control->rolls.empty());
  REQUIRE(rank.groups.subgroup(kMyself, {}));
  REQUIRE(rank.groups.duplicate({}));
  CHECK(rank.ids ==
        std::vector{rank.births.subgroup_id(mix_ranks(Ranks{1}), 0), rank.births.duplicate_id(1)});
}

TEST_CASE("groups: a broken communicator has no copies, but its ranks may go on in a subgroup",
          "[comm][unit]") {
  OneRank rank;
  rank.failures.hear({ErrorKind::peer_lost, "rank 7 fell silent", 7});
  CHECK_THAT(failure_of(rank.groups.duplicate({})).message, Contains("rank 7 fell silent"));
  CHECK(rank.ids.empty());
  for (const auto& flooded : rank.control->floods) CHECK(flooded.communicator == rank.self.id());
  CHECK(rank.groups.subgroup(kMyself, {}));
}

TEST_CASE("groups: a child has its parent's options but for a name and a limit of its own",
          "[comm][unit]") {
  CommunicatorOptions options;
  options.name = "parent";
  options.timeout = 5s;
  options.eager_limit = 77;
  OneRank rank(options);
  CommunicatorOptions expected = options;
  GroupOptions asked;
  SECTION("given") {
    asked.name = "child";
    asked.timeout = 3s;
    expected.name = "child";
    expected.timeout = 3s;
    REQUIRE(rank.groups.duplicate(asked));
  }
  SECTION("made up by duplicate") {
    expected.name = "parent/copy1";
    REQUIRE(rank.groups.duplicate(asked));
  }
  SECTION("made up by subgroup") {
    expected.name = "parent/group(rank 1)";
    REQUIRE(rank.groups.subgroup(kMyself, asked));
  }
  SECTION("made up by shrink") {
    lose(rank, {});
    expected.name = "parent/shrunk1";
    REQUIRE(rank.groups.shrink(asked));
  }
  SECTION("made up by shrink without some") {
    lose(rank, {});
    expected.name = "parent/without(rank 0)";
    REQUIRE(rank.groups.shrink(asked, {0}));
  }
  const auto& child = rank.children.at(0)->self;
  CHECK(child.name() == expected.name);
  CHECK(child.options().timeout == expected.timeout);
  CHECK(child.options().eager_limit == expected.eager_limit);
}

TEST_CASE("groups: ranks make up the same ids, and others for other groups", "[comm]") {
  const auto seed = GENERATE(range(0U, 6U));
  CAPTURE(seed);
  std::minstd_rand random(seed + 1);
  const std::vector<std::uint32_t> job_ranks{2, 3, 5, 7};
  constexpr int kRanks = 4;
  std::array<int, kRanks> colors{}, keys{};
  for (auto& color : colors) color = static_cast<int>(random() % 3) - 1;
  for (auto& key : keys) key = static_cast<int>(random() % 3);
  static_assert(kNoColor == -1);
  const auto communicator = next_communicator();
  std::vector<std::unique_ptr<ParentRank>> ranks;
  for (Rank rank = 0; rank < kRanks; rank++) {
    ranks.push_back(std::make_unique<ParentRank>(rank, job_ranks, communicator));
    lose(*ranks.back(), {5});
  }
  std::array<std::optional<std::size_t>, kRanks> splits;
  const auto errors = run_threads(kRanks, [&](int i) {
    const auto r = static_cast<std::size_t>(i);
    auto& rank = *ranks[r];
    value_or_throw(rank.groups.duplicate({}));
    if (value_or_throw(rank.groups.split(colors[r], keys[r], {})))
      splits[r] = rank.children.size() - 1;
    if (i < 3) value_or_throw(rank.groups.subgroup(std::array{2, 0, 1}, {}));
    if (i < 3) value_or_throw(rank.groups.subgroup(std::array{2, 0, 1}, {}));
    if (i != 2) value_or_throw(rank.groups.shrink({}));
    value_or_throw(rank.groups.duplicate({}));
  });
  CHECK(errors == std::vector<std::string>(kRanks));
  std::map<std::uint64_t, std::vector<std::uint32_t>> members;
  std::map<std::uint64_t, std::size_t> made;
  for (const auto& rank : ranks)
    for (const auto& child : rank->children) {
      // All that made it agree on its ranks.
      const auto& group = child->self.group().job_ranks();
      CHECK(members.try_emplace(child->self.id(), group).first->second == group);
      made[child->self.id()]++;
    }
  for (const auto& [id, count] : made) CHECK(members[id].size() == count);
  const std::set<int> shades(colors.begin(), colors.end());
  CHECK(made.size() == 5 + shades.size() - shades.count(kNoColor));
  for (std::size_t r = 0; r < kRanks; r++) {
    CHECK(splits[r].has_value() == (colors[r] != kNoColor));
    if (!splits[r]) continue;
    std::vector<std::uint32_t> expected;
    for (int key = 0; key < 3; key++)
      for (std::size_t other = 0; other < kRanks; other++)
        if (colors[other] == colors[r] && keys[other] == key) expected.push_back(job_ranks[other]);
    CHECK(ranks[r]->children[*splits[r]]->self.group().job_ranks() == expected);
  }
  std::vector<std::vector<std::uint32_t>> of_rank0;
  for (const auto& child : ranks[0]->children) of_rank0.push_back(child->self.group().job_ranks());
  CHECK(of_rank0.front() == job_ranks);
  CHECK(of_rank0.back() == job_ranks);
  CHECK(of_rank0.end()[-2] == std::vector<std::uint32_t>{2, 3, 7});
  CHECK(of_rank0.end()[-3] == std::vector<std::uint32_t>{5, 2, 3});
}

TEST_CASE("groups: if a child cannot be made, the others are told once, and by whom",
          "[comm][unit]") {
  OneRank rank;
  lose(rank, {});
  const auto kind = GENERATE(ErrorKind::exhausted, ErrorKind::internal, ErrorKind::peer_lost);
  const bool throws = kind != ErrorKind::peer_lost && GENERATE(false, true);
  rank.on_make = [&]() -> Status {
    if (throws && kind == ErrorKind::exhausted) throw std::bad_alloc();
    if (throws) throw std::logic_error("nothing left");
    return tl::unexpected(Failure{kind, "nothing left", 5});
  };
  const auto made = [&] {
    const auto call = GENERATE(0, 1, 2);
    if (call == 0) return rank.groups.duplicate({});
    if (call == 1) return rank.groups.subgroup(kBothOfUs, {});
    return rank.groups.shrink({});
  }();
  const auto failure = failure_of(made);
  CHECK(failure.kind == kind);
  // A failure that has a culprit already is told as it is.
  CHECK(failure.culprit == (kind == ErrorKind::peer_lost ? 5U : 3U));
  if (kind != ErrorKind::peer_lost)
    CHECK_THAT(failure.message, Contains("rank 3 of the job failed to make the communicator"));
  REQUIRE(rank.control->floods.size() == 1);
  CHECK(rank.control->floods[0].communicator == rank.ids.at(0));
  CHECK(rank.control->floods[0].failure.message == failure.message);
  CHECK(rank.control->floods[0].failure.culprit == failure.culprit);
  CHECK_FALSE(rank.broken());
}

TEST_CASE("groups: a rank that cannot make its part of a split tells it, too", "[comm][unit]") {
  ParentRank rank(0, {4}, next_communicator());
  rank.on_make = [] { return fail(ErrorKind::exhausted, "nothing left"); };
  const auto made = rank.groups.split(3, 0, {});
  REQUIRE_FALSE(made);
  CHECK(made.error().culprit == 4U);
  REQUIRE(rank.control->floods.size() == 1);
  CHECK(rank.control->floods[0].communicator == rank.births.split_id(1, 3));
}

TEST_CASE("groups: a rank without a colour makes nothing, and counts the split all the same",
          "[comm][unit]") {
  ParentRank rank(0, {4}, next_communicator());
  const auto made = rank.groups.split(kNoColor, 0, {});
  REQUIRE(made);
  CHECK_FALSE(*made);
  REQUIRE(rank.groups.duplicate({}));
  CHECK(rank.ids == std::vector{rank.births.duplicate_id(2)});
}

TEST_CASE("groups: a failed subgroup's id stays failed after a mismatch, and only then",
          "[comm][unit]") {
  OneRank rank;
  const auto kind = GENERATE(ErrorKind::mismatch, ErrorKind::peer_lost, ErrorKind::aborted);
  rank.on_made = [&](ChildRank& child) {
    child.control->on_settle = [&child, kind] {
      child.news.failed(child.self.id(), {kind, "other lists", 7});
    };
  };
  const auto failure = failure_of(rank.groups.subgroup(kBothOfUs, {}));
  CHECK(failure.kind == kind);
  CHECK_THAT(failure.message, Contains("other lists") && Contains("group(ranks 1, 3)"));
  CHECK(failure.culprit == 7U);  // as the parent's caller numbers it
  rank.on_made = nullptr;
  rank.control->on_settle = nullptr;
  rank.on_make = [] { return fail(ErrorKind::aborted, "enough"); };
  REQUIRE_FALSE(rank.groups.subgroup(kBothOfUs, {}));
  CHECK((rank.ids.at(0) == rank.ids.at(1)) == (kind == ErrorKind::mismatch));
}

TEST_CASE("groups: a rank that waits in a child hears of its parent's end", "[comm][unit]") {
  OneRank rank;
  const bool was_broken = GENERATE(false, true);
  const Failure abort{ErrorKind::aborted, "rank 2 aborted", 2};
  const auto break_it = [&] {
    rank.failures.hear(abort);
    const Owner owned(rank.progress);
    rank.failures.take_news(owned);
  };
  if (was_broken) break_it();
  // If it hears of nothing, its time limit ends the wait.
  rank.on_made = [](ChildRank& child) { child.is_late_soon = true; };
  std::string expected = was_broken ? "timed out" : "rank 2 aborted";
  SECTION("the parent was closed while the child was made") {
    rank.on_make = [&]() -> Status {
      rank.failures.verdict().close();
      return {};
    };
    expected = "destroyed";
  }
  SECTION("the parent is closed later") {
    rank.control->on_settle = [&] { rank.births.end_making(Failures::destroyed()); };
    expected = "destroyed";
  }
  SECTION("the parent broke while the child was made; who knew that it is broken goes on") {
    rank.on_make = [&]() -> Status {
      rank.failures.hear(abort);
      return {};
    };
  }
  SECTION("the parent breaks later") {
    rank.control->on_settle = [&] { rank.births.end_unwarned_making(abort); };
  }
  const auto failure = failure_of(rank.groups.subgroup(kBothOfUs, briefly()));
  CHECK_THAT(failure.message, Contains(expected));
  // The next one finds room.
  CHECK(rank.births.begin_subgroup({1}, false));
}

TEST_CASE("groups: who waits in a child announces its list, to a few if there are many",
          "[comm][unit]") {
  const Rank size = GENERATE(2U, 64U, 65U);
  std::vector<std::uint32_t> job_ranks;
  std::vector<int> list;
  for (Rank rank = 0; rank < size; rank++) {
    job_ranks.push_back(2 * rank + 1);
    list.push_back(static_cast<int>(size - 1 - rank));
  }
  ParentRank rank(1, job_ranks, next_communicator());
  rank.on_made = [](ChildRank& child) { child.is_late_soon = true; };
  CHECK(failure_of(rank.groups.subgroup(list, briefly())).kind == ErrorKind::timed_out);
  std::vector<std::uint32_t> told;
  for (const auto& [waiting, to] : rank.control->published) {
    if (waiting.signature.kind != kSubgroup || waiting.note.empty()) continue;
    CHECK(waiting.communicator == rank.self.id());
    CHECK(waiting.sequence == 0);
    CHECK(waiting.signature.count == mix_ranks(Ranks(list.begin(), list.end())));
    told = to;
  }
  std::ranges::sort(told);
  CHECK(told == (size <= 64 ? job_ranks : std::vector<std::uint32_t>{1, 5}));
}

TEST_CASE("groups: a member that does not come is named when the time is over", "[comm][unit]") {
  OneRank rank;
  rank.on_made = [](ChildRank& child) { child.is_late_soon = true; };
  auto options = briefly();
  options.name = "pair";
  const auto begun = now_shown();
  const auto failure = failure_of(rank.groups.subgroup(kBothOfUs, options));
  CHECK(now_shown() - begun == options.timeout);
  CHECK(failure.kind == ErrorKind::timed_out);
  CHECK(failure.culprit == 7U);
  CHECK_THAT(failure.message, StartsWith("pair: subgroup, by ") &&
                                  Contains(" (call 0) on rank 0 timed out after 3000 ms") &&
                                  Contains("it waits for rank 1 (in the job rank 7 "));
}

TEST_CASE("groups: a failure that no rank is to blame for ends whatever is left", "[comm][unit]") {
  OneRank rank;
  lose(rank, {5});
  const bool has_culprit = GENERATE(false, true);
  rank.on_made = [&](ChildRank& child) {
    child.failures.hear({ErrorKind::timed_out, "its start-up was given up",
                         has_culprit ? std::optional(7U) : std::nullopt});
  };
  const auto made = rank.groups.shrink({});
  REQUIRE(rank.children.size() == 1);
  CHECK(rank.children[0]->self.group().job_ranks() == std::vector<std::uint32_t>{2, 3, 7});
  CHECK(made.has_value() == has_culprit);
  if (!made) CHECK(made.error().message == "its start-up was given up");
}

TEST_CASE("groups: a shrink that failed is tried again, one that ended well is counted",
          "[comm][unit]") {
  OneRank rank;
  lose(rank, {});
  rank.on_make = [] { return fail(ErrorKind::exhausted, "nothing left"); };
  CHECK_FALSE(rank.groups.shrink({}));
  rank.on_make = nullptr;
  CHECK(rank.groups.shrink({}));
  CHECK(rank.groups.shrink({}));
  std::vector<std::pair<std::uint64_t, std::uint32_t>> numbers;
  for (const auto& roll : rank.control->rolls) numbers.emplace_back(roll.number, roll.attempt);
  CHECK(numbers == std::vector<std::pair<std::uint64_t, std::uint32_t>>{{0, 0}, {0, 1}, {1, 0}});
  const auto list = mix_ranks(Ranks{0, 1, 2, 3});
  CHECK(rank.ids == std::vector{rank.births.shrink_id(0, list), rank.births.shrink_id(0, list),
                                rank.births.shrink_id(1, list)});
}

}  // namespace ccoll::test
