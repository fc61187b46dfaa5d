// SPDX-License-Identifier: Apache-2.0
#include "control/connections/absences.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "control/parts.hpp"

namespace ccoll::control {

TEST_CASE("absences: a rank's time runs from the first call that found nobody", "[unit]") {
  using namespace std::chrono_literals;
  asio::io_context context;
  const auto owner = std::make_shared<TaskOwner>(context);
  std::vector<std::uint32_t> over;
  Absences absences(
      owner->tasks, [&](std::uint32_t rank) { over.push_back(rank); }, 2ms);
  absences.add(5);
  absences.add(3);
  absences.add(5);
  CHECK((absences.contains(5) && absences.contains(3) && !absences.contains(4)));
  CHECK(over.empty());
  context.run();
  std::ranges::sort(over);
  CHECK(over == std::vector<std::uint32_t>{3, 5});
  CHECK_FALSE(absences.contains(5));
  // It may be absent again.
  absences.add(5);
  context.restart();
  context.run();
  CHECK(over.size() == 3);
}

TEST_CASE("absences: after stop() nobody is told", "[unit]") {
  using namespace std::chrono_literals;
  asio::io_context context;
  const auto owner = std::make_shared<TaskOwner>(context);
  int over = 0;
  Absences absences(
      owner->tasks, [&](std::uint32_t) { over++; }, 1ms);
  absences.add(1);
  absences.stop();
  context.run();
  CHECK(over == 0);
  CHECK(owner->thrown == 0);
}

}  // namespace ccoll::control
