// SPDX-License-Identifier: Apache-2.0
// Communicators that exclude some ranks, whether those are alive or not.
#include <atomic>
#include <catch2/catch.hpp>
#include <latch>

#include "support/eventually.hpp"
#include "support/ranks.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using testing::expect;
using testing::message_of;
using testing::options_for;
using testing::run_ranks;

namespace {

std::int64_t sum_of_ones(Communicator& communicator) {
  std::int64_t one = 1;
  communicator.all_reduce(std::span(&one, 1));
  return one;
}

void check_all_well(const std::vector<std::string>& errors) {
  for (const auto& error : errors) CHECK(error == "");
}

}  // namespace

TEST_CASE("shrink without: those who stay go on after an abort, and wait for nobody else",
          "[comm]") {
  const auto transport = GENERATE(as<std::string>(), "inproc", "shm", "tcp");
  CAPTURE(transport);
  std::latch over(3);
  check_all_well(run_ranks(5, options_for(transport), [&](Communicator& world) {
    const struct Over {
      std::latch& over;
      const bool counts;
      ~Over() {
        if (counts) over.count_down();
      }
    } is_over{over, world.rank() % 2 == 0};
    message_of([&] { sum_of_ones(world); });
    if (world.rank() == 0) world.abort("enough");
    // They are alive but do not come.
    if (world.rank() % 2 == 1) return over.wait();
    message_of([&] { world.barrier(); });
    const auto lists = std::vector<std::vector<int>>{{1, 3}, {3, 1}, {1, 3, 1}};
    auto rest = world.shrink_without(lists[static_cast<std::size_t>(world.rank() / 2)]);
    expect(rest.size() == 3 && rest.rank() == world.rank() / 2, "who is in it");
    expect(rest.name() == "world/without(ranks 1, 3)", rest.name());
    expect(sum_of_ones(rest) == 3, "a sum is wrong");
    // It works again, both for the same communicator and for the new one.
    auto again = world.shrink_without({1, 3});
    expect(sum_of_ones(again) == 3, "a sum is wrong the second time");
    if (rest.rank() == 2) return;
    auto two = rest.shrink_without({2});
    expect(sum_of_ones(two) == 2, "a sum of two is wrong");
  }));
}

TEST_CASE("shrink without: a communicator that is as good as new, and roll calls apart", "[comm]") {
  check_all_well(run_ranks(3, options_for("inproc"), [](Communicator& world) {
    if (world.rank() != 2)
      expect(sum_of_ones(*std::make_unique<Communicator>(world.shrink_without({2}))) == 2, "two");
    // A roll call of all ranks ignores that exclusion.
    auto all = world.shrink();
    expect(all.size() == 3 && sum_of_ones(all) == 3, "all");
    auto none = world.shrink_without(std::vector<int>{});
    expect(none.size() == 3 && sum_of_ones(none) == 3, "without nobody");
    auto alone = world.shrink_without(world.rank() == 0   ? std::vector{1, 2}
                                      : world.rank() == 1 ? std::vector{0, 2}
                                                          : std::vector{0, 1});
    expect(alone.size() == 1 && sum_of_ones(alone) == 1, "alone");
    expect(sum_of_ones(world) == 3, "the world");
  }));
}

TEST_CASE("shrink without: who is lost beside those is not waited for either", "[comm]") {
  std::atomic<int> done = 0;
  check_all_well(run_ranks(4, options_for("tcp"), [&](Communicator& world) {
    sum_of_ones(world);
    if (world.rank() == 3) return;
    if (world.rank() == 2)
      return expect(testing::eventually([&] { return done == 2; }), "they wait for rank 2");
    auto rest = world.shrink_without({2});
    expect(rest.size() == 2 && sum_of_ones(rest) == 2, "who is left");
    done++;
  }));
}

TEST_CASE("shrink without: what cannot be is refused at once", "[comm]") {
  check_all_well(run_ranks(2, options_for("inproc"), [](Communicator& world) {
    const auto me = world.rank();
    const auto refuse = [&](std::vector<int> excluded, const std::string& why) {
      const auto text = message_of([&] { world.shrink_without(excluded); });
      expect(text == "invalid_argument: shrink: " + why, text);
    };
    refuse({2}, "the excluded rank 2 is not one of 2 ranks: expected 0 to 1");
    refuse({-1}, "the excluded rank -1 is not one of 2 ranks: expected 0 to 1");
    refuse({1 - me, me},
           "rank " + std::to_string(me) + " would exclude itself; only those that stay call it");
    world.barrier();
  }));
}
