// SPDX-License-Identifier: Apache-2.0
// Two ranks of one communicator in one thread, each moved on when the test says so.
#include "comm/collectives/collective_calls.hpp"

#include <catch2/catch.hpp>

#include "comm/owned.hpp"
#include "comm/parts.hpp"

namespace ccoll::test {
namespace {

using Catch::Matchers::Contains;

struct CallingRanks {
  Parts first{0, {0, 1}, 27};
  Parts second{1, {0, 1}, 27};

  /// Moves both on until neither moves.
  void run() {
    for (bool moved = true; moved;) {
      moved = first.round();
      moved = second.round() || moved;
    }
  }
};

}  // namespace

TEST_CASE("collective calls: run in the order of their numbers", "[comm][unit]") {
  CallingRanks ranks;
  std::vector<float> a{1, 2}, b{3, 4}, c{10}, d{20};
  const auto begun = {ranks.first.begin_sum(a), ranks.first.begin_sum(c), ranks.second.begin_sum(b),
                      ranks.second.begin_sum(d)};
  ranks.run();
  for (const auto& work : begun) CHECK(work->done());
  CHECK(a == std::vector<float>{4, 6});
  CHECK(b == a);
  CHECK(c == std::vector<float>{30});
  CHECK(d == c);
  const Owner owned(ranks.first.progress);
  CHECK(ranks.first.under_way.collectives(owned).next_number() == 2);
}

TEST_CASE("collective calls: equal ones share a plan, and others have their own", "[comm][unit]") {
  CallingRanks ranks;
  std::vector<float> values(4);
  const auto plan_of = [&](const Call& call) {
    const Owner owned(ranks.first.progress);
    return ranks.first.calls.plan_for(owned, call, signature_of(call)).value();
  };
  const auto call = Parts::sum_of(values);
  const auto plan = plan_of(call);
  CHECK(plan_of(call) == plan);
  auto longer = call;
  longer.count = 400'000;
  CHECK(plan_of(longer) != plan);
}

TEST_CASE("collective calls: different ones end with a suspicion that both labels can complete",
          "[comm][unit]") {
  CallingRanks ranks;
  std::vector<float> a(4), b(5);
  ranks.first.begin_sum(a, "mine");
  ranks.second.begin_sum(b, "theirs");
  ranks.run();
  const auto& verdict = ranks.first.failures.verdict();
  REQUIRE(verdict.suspicion(kOwned));
  CHECK(verdict.suspicion(kOwned)->kind == ErrorKind::mismatch);
  REQUIRE_FALSE(ranks.first.control->published.empty());
  CHECK(ranks.first.control->published.back().waiting.signature.kind == kAsksLabel);
  // The answer ends it at once.
  ranks.first.news.compare(1, {27, 0, {.kind = kTellsLabel}, "theirs"});
  ranks.first.look_for(std::chrono::milliseconds(1));
  REQUIRE(ranks.first.broken());
  CHECK_THAT(ranks.first.broken()->message,
             Contains("4 float32") && Contains("5 float32") && Contains("theirs"));
}

TEST_CASE("collective calls: a call in a broken communicator is refused", "[comm][unit]") {
  CallingRanks ranks;
  std::vector<float> a(4);
  const Owner owned(ranks.first.progress);
  ranks.first.failures.break_with(owned, {ErrorKind::aborted, "enough", 1}, true);
  const auto begun = ranks.first.calls.begin(owned, Parts::sum_of(a));
  REQUIRE_FALSE(begun);
  CHECK_THAT(begun.error().message, Contains("enough"));
}

TEST_CASE("collective calls: one like an earlier one is repeated the short way", "[comm][unit]") {
  CallingRanks ranks;
  std::vector<float> a{1}, b{2};
  const auto begin = [](Parts& rank, std::vector<float>& values) {
    const auto work = rank.begin_sum(values);
    const Owner owned(rank.progress);
    rank.calls.remember(owned, Parts::sum_of(values),
                        std::static_pointer_cast<CollectiveOperation>(work->operations.front()));
    return work;
  };
  const auto repeat = [](Parts& rank, std::vector<float>& values) {
    const Reduction sum = ReduceOp::sum;
    Work unfinished;
    const ConstBlock in{values.data(), values.size(), DataType::float32};
    const Block out{values.data(), values.size(), DataType::float32};
    CallOptions options;
    options.unfinished = &unfinished;
    return rank.calls.repeat({Kind::all_reduce, sum, 0, rank.self.rank(), 2}, {in, out}, options);
  };
  CHECK_FALSE(repeat(ranks.first, a));
  {
    const auto works = {begin(ranks.first, a), begin(ranks.second, b)};
    CHECK_FALSE(repeat(ranks.first, a));  // its operation is still under way
    ranks.run();
    for (const auto& work : works) CHECK(work->done());
    CHECK_FALSE(repeat(ranks.first, a));  // the Work shows how it ended
  }
  {
    const auto recv = ranks.first.begin_recv(1);
    CHECK_FALSE(repeat(ranks.first, a));  // something else is under way
    ranks.second.begin(MessageOperation::What::send, 0);
    ranks.run();
    CHECK(recv->done);
  }
  CHECK(repeat(ranks.first, a));
  CHECK(repeat(ranks.second, b));
  ranks.run();
  CHECK(a == std::vector<float>{6});
  CHECK(b == a);
}

}  // namespace ccoll::test
