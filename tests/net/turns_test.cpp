// SPDX-License-Identifier: Apache-2.0
#include "net/wire/turns.hpp"

#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "net/service.hpp"

using namespace ccoll;
using namespace std::chrono_literals;

namespace {

/// A record of the coroutines' work; used by the service thread.
struct Doings {
  std::size_t at_once = 0, most = 0;
  std::vector<int> order;
  int open = 0;
  std::promise<void> all_ended;
};

asio::awaitable<void> sleep(std::chrono::microseconds time) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  co_await timer.async_wait(asio::use_awaitable);
}

asio::awaitable<void> work(std::shared_ptr<net::Turns> turns, std::shared_ptr<Doings> doings,
                           int number, std::chrono::microseconds time, bool throws) {
  struct End {
    Doings& of;
    ~End() {
      if (--of.open == 0) of.all_ended.set_value();
    }
  } end{*doings};
  const auto turn = co_await net::Turns::take(turns);
  doings->order.push_back(number);
  doings->most = std::max(doings->most, ++doings->at_once);
  co_await sleep(time);
  doings->at_once--;
  if (throws) throw std::runtime_error("a turn that fails");
}

}  // namespace

TEST_CASE("turns: so many at once, in order, whatever becomes of each", "[core]") {
  std::mt19937 random(7);
  for (const std::size_t at_once : {1, 2, 7, 200}) {
    const auto service = net::Service::dedicated();
    const auto doings = std::make_shared<Doings>();
    const auto turns = std::make_shared<net::Turns>(at_once);
    constexpr int kAll = 100;
    doings->open = kAll;
    // None begins before all exist.
    std::promise<void> go;
    asio::post(service->context(), [&] { go.get_future().wait(); });
    for (int i = 0; i < kAll; i++) {
      const std::chrono::microseconds time(random() % 500);
      net::spawn(service->context().get_executor(), work(turns, doings, i, time, random() % 4 == 0),
                 "a test", [](const Failure&) {});
    }
    go.set_value();
    REQUIRE(doings->all_ended.get_future().wait_for(20s) == std::future_status::ready);
    if (at_once < kAll) CHECK(doings->most == at_once);
    CHECK(std::ranges::is_sorted(doings->order));
    CHECK(doings->order.size() == kAll);
  }
}

TEST_CASE("turns: a service that ends takes those that wait with it", "[core]") {
  auto service = net::Service::dedicated();
  const auto doings = std::make_shared<Doings>();
  const auto turns = std::make_shared<net::Turns>(2);
  doings->open = 10;
  for (int i = 0; i < 10; i++)
    net::spawn(service->context().get_executor(), work(turns, doings, i, 1h, false), "a test");
  std::promise<void> begun;
  asio::post(service->context(), [&] { begun.set_value(); });
  begun.get_future().wait();
  service.reset();
  CHECK(doings->all_ended.get_future().wait_for(20s) == std::future_status::ready);
  CHECK(doings->order.size() == 2);
}
