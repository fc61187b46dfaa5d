// SPDX-License-Identifier: Apache-2.0
// Calls that a group puts off, without a communicator.
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <new>

#include "ccoll/call_group.hpp"
#include "comm/call/call_group.hpp"
#include "comm/parts.hpp"
#include "support/ranks.hpp"

using namespace ccoll;

TEST_CASE("put-off calls: one that throws fails its group, and those behind it are made",
          "[comm]") {
  const auto one = std::make_shared<int>(), other = std::make_shared<int>();
  bool is_made = false;
  group_begin();
  call_group::put_off({.communicator = one, .stream = {}, .go_on = [](auto) -> Result<bool> {
                         throw std::bad_alloc();
                       }});
  call_group::put_off({.communicator = other, .stream = {}, .go_on = [&](auto) -> Result<bool> {
                         return is_made = true;
                       }});
  CHECK(testing::message_of(group_end) != "no error");
  CHECK(is_made);
  CHECK_FALSE(call_group::has_put_off());
  group_begin();
  CHECK(testing::message_of(group_end) == "no error");
}

TEST_CASE("put-off calls: a wait goes on with them by the Clock, whatever the communicator's says",
          "[comm]") {
  const auto shown_before = test::now_shown();
  test::shown_time = Clock::now() - std::chrono::hours(2);
  test::Parts rank(0, {0, 1}, 930);
  const auto awaited = std::make_shared<Operation>();
  Work work(std::make_shared<Work::State>(Work::State{rank.progress.weak(), {awaited}}));
  int times = 0;
  group_begin();
  call_group::put_off({.communicator = awaited, .stream = {}, .go_on = [&](auto) -> Result<bool> {
                         test::pass(std::chrono::minutes(10));
                         if (++times < 3) return false;
                         awaited->end();
                         return true;
                       }});
  CHECK_NOTHROW(work.wait(std::chrono::minutes(1)));
  CHECK(times == 3);
  group_end();
  test::shown_time = shown_before;
}
