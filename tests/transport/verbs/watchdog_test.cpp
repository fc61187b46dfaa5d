// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/watchdog.hpp"

#include <catch2/catch.hpp>
#include <iterator>
#include <random>
#include <set>

using namespace ccoll::verbs;
using namespace std::chrono_literals;
using Advice = Watchdog::Advice;

namespace {

/// A device that confirms in order and reports only what it was asked to; at most one second passes
/// between two looks.
struct Device {
  Watchdog watchdog;
  Watchdog::Clock::time_point now{1000s};
  std::uint64_t posted = 0;
  std::uint64_t confirmed = 0;
  std::set<std::uint64_t> told{0};  ///< those whose confirmation is reported
  Watchdog::Clock::duration patience = 7s;

  std::uint64_t completed() const { return *std::prev(told.upper_bound(confirmed)); }
  Advice look() {
    const auto advice = watchdog.look(posted, completed(), now, patience);
    if (advice == Advice::ask) told.insert(++posted);
    return advice;
  }
};

}  // namespace

TEST_CASE("watchdog: a device that neither confirms nor gives up is given up, once it was asked",
          "[transport][verbs]") {
  const bool is_told = GENERATE(false, true);
  std::mt19937_64 random(GENERATE(range(0, 20)));
  Device device;
  for (int i = 0; i < 100; i++) {
    device.now += std::chrono::milliseconds(random() % 1000);
    device.confirmed = ++device.posted;
    if (random() % 8 == 0) device.told.insert(device.posted);
    REQUIRE(device.look() != Advice::give_up);
  }
  device.posted++;
  if (is_told) device.told.insert(device.posted);
  const auto stalled = device.now;
  int times_asked = 0;
  for (auto advice = Advice::wait; advice != Advice::give_up;) {
    device.now += std::chrono::milliseconds(1 + random() % 1000);
    advice = device.look();
    times_asked += advice == Advice::ask;
    REQUIRE(device.now - stalled < device.patience + 5s);
  }
  CHECK(device.now - stalled > device.patience);
  CHECK(times_asked <= 1);
}

TEST_CASE("watchdog: a device that confirms within its time never is, and is asked once a pause",
          "[transport][verbs]") {
  std::mt19937_64 random(GENERATE(range(0, 20)));
  Device device;
  for (int i = 0; i < 200; i++) {
    for (auto more = random() % 20; more > 0; more--)
      if (++device.posted % 8 == 0) device.told.insert(device.posted);
    const auto late = random() % 6500 * 1ms;
    const auto begun = device.now;
    int times_asked = 0;
    for (const auto pause = random() % 20'000 * 1ms; device.now - begun < pause;) {
      const auto advice = device.look();
      REQUIRE(advice != Advice::give_up);
      times_asked += advice == Advice::ask;
      device.now += std::chrono::milliseconds(1 + random() % 400);
      if (device.now - begun >= late) device.confirmed = device.posted;
    }
    CHECK(times_asked <= 2);
    device.confirmed = device.posted;
  }
}

TEST_CASE("watchdog: a device has four times what it was told between tries, and some",
          "[transport][verbs]") {
  Settings settings;
  settings.timeout = 14;
  settings.retries = 3;
  CHECK(Watchdog::patience(settings) > 4 * 4 * 67ms);
  CHECK(Watchdog::patience(settings) < 10s);
  settings.timeout = 31;
  settings.retries = 7;
  CHECK(Watchdog::patience(settings) > 4 * 8 * 8796s);
}
