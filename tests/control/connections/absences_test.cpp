// SPDX-License-Identifier: Apache-2.0
#include "control/connections/absences.hpp"

#include <catch2/catch.hpp>
#include <vector>

#include "control/parts.hpp"

namespace ccoll::control {

using namespace std::chrono_literals;
using Ranks = std::vector<std::uint32_t>;

TEST_CASE("absences: a rank's time runs from the first call that found nobody", "[unit]") {
  asio::io_context context;
  const auto owner = std::make_shared<TaskOwner>(context);
  Ranks over;
  Absences absences(owner->tasks, [&](std::uint32_t rank) { over.push_back(rank); });
  const auto begin = shown;
  const auto at = [&](Clock::duration time) {
    shown = begin + time;
    absences.end_due(shown);
    return over;
  };
  absences.add(5);
  CHECK(at(300ms) == Ranks{});
  absences.add(3);
  absences.add(5);
  CHECK((absences.contains(5) && absences.contains(3) && !absences.contains(4)));
  CHECK(at(Absences::kPatience - 1ns) == Ranks{});
  CHECK(at(Absences::kPatience) == Ranks{5});
  CHECK_FALSE(absences.contains(5));
  absences.add(5);  // it is absent again
  CHECK(at(300ms + Absences::kPatience - 1ns) == Ranks{5});
  CHECK(at(300ms + Absences::kPatience) == Ranks{5, 3});
  CHECK(at(2 * Absences::kPatience) == Ranks{5, 3, 5});
}

TEST_CASE("absences: a timer ends them, each at its time", "[unit]") {
  asio::io_context context;
  const auto owner = std::make_shared<TaskOwner>(context);
  Ranks over;
  Absences absences(
      owner->tasks, [&](std::uint32_t rank) { over.push_back(rank); }, 2ms);
  absences.add(5);
  shown += 1ms;
  absences.add(3);
  shown += 1ms;
  CHECK(context.run_one() == 1);
  CHECK(over == Ranks{5});
  shown += 1ms;
  context.run();
  CHECK(over == Ranks{5, 3});
}

TEST_CASE("absences: after stop() nobody is told", "[unit]") {
  asio::io_context context;
  const auto owner = std::make_shared<TaskOwner>(context);
  int over = 0;
  Absences absences(
      owner->tasks, [&](std::uint32_t) { over++; }, 1ms);
  absences.add(1);
  shown += 1ms;
  absences.stop();
  context.run();
  CHECK(over == 0);
  CHECK(owner->thrown == 0);
}

}  // namespace ccoll::control
