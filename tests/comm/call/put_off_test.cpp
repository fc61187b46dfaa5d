// SPDX-License-Identifier: Apache-2.0
// Calls that a group puts off, without a communicator.
#include <catch2/catch.hpp>
#include <memory>
#include <new>

#include "ccoll/call_group.hpp"
#include "comm/call/call_group.hpp"
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
