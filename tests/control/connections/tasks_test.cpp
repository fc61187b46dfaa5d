// SPDX-License-Identifier: Apache-2.0
#include "control/connections/tasks.hpp"

#include <catch2/catch.hpp>
#include <stdexcept>

#include "control/parts.hpp"

namespace ccoll::control {
namespace {

asio::awaitable<void> throw_later(std::shared_ptr<void> /*kept*/) {
  throw std::runtime_error("thrown");
  co_return;
}

}  // namespace

TEST_CASE("tasks: each keeps the owner alive until it is over", "[unit]") {
  asio::io_context context;
  auto owner = std::make_shared<TaskOwner>(context);
  const std::weak_ptr<TaskOwner> watched = owner;
  asio::steady_timer timer(context, std::chrono::hours(1));
  bool has_run = false;
  owner->tasks.await(timer, [&] { has_run = true; });
  CHECK(owner.use_count() == 2);
  timer.cancel();
  context.run();
  CHECK_FALSE(has_run);
  CHECK(owner.use_count() == 1);
  owner->tasks.post([&] { has_run = true; });
  CHECK(owner.use_count() == 2);
  context.restart();
  context.run();
  CHECK(has_run);
  CHECK(watched.use_count() == 1);
}

TEST_CASE("tasks: what a handler or a coroutine throws reaches the owner", "[unit]") {
  asio::io_context context;
  const auto owner = std::make_shared<TaskOwner>(context);
  owner->tasks.post([] { throw std::runtime_error("thrown"); });
  owner->tasks.spawn(throw_later(owner->tasks.keep()), "first");
  std::string told;
  owner->tasks.spawn(throw_later(owner->tasks.keep()), "second",
                     [&](const Failure& failure) { told = failure.message; });
  context.run();
  CHECK(owner->thrown == 1);
  CHECK(owner->failures == std::vector<std::string>{"thrown"});
  CHECK(told == "thrown");
}

}  // namespace ccoll::control
