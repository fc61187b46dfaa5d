// SPDX-License-Identifier: Apache-2.0
#include <sys/eventfd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <latch>
#include <thread>

#include "support/limited_descriptors.hpp"
#include "transport/waiter.hpp"

using namespace ccoll;
using namespace std::chrono_literals;

namespace {

std::chrono::nanoseconds time_of(const std::function<void()>& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::steady_clock::now() - start;
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(open), end(open)));
}

}  // namespace

TEST_CASE("waiter: a sleep ends at its limit", "[transport][unit]") {
  auto waiter = Waiter::make().value();
  CHECK(time_of([&] { waiter->sleep(20ms); }) >= 19ms);
}

TEST_CASE("waiter: a ring ends the present sleep, and the next when nobody sleeps",
          "[transport][unit]") {
  auto waiter = Waiter::make().value();
  waiter->ring();
  CHECK(time_of([&] { waiter->sleep(10s); }) < 5s);
  std::thread other([&] {
    std::this_thread::sleep_for(20ms);
    waiter->ring();
  });
  CHECK(time_of([&] { waiter->sleep(10s); }) < 5s);
  other.join();
}

TEST_CASE("waiter: another thread may have it watch sockets, also during a sleep",
          "[transport][unit]") {
  for (int i = 0; i < 20; i++) {
    const auto waiter = Waiter::make().value();
    const FileDescriptor first(eventfd(0, EFD_CLOEXEC)), second(eventfd(0, EFD_CLOEXEC));
    int watched = 0;
    std::thread other([&] {
      for (const auto* each : {&first, &second}) {
        watched += waiter->watch(each->number()) ? 1 : 0;
        eventfd_write(each->number(), 1);
      }
    });
    // Some sleeps may end by the ring for the first socket, and others by the sockets.
    CHECK(time_of([&] { waiter->sleep(10s); }) < 5s);
    other.join();
    CHECK(watched == 2);
    waiter->sleep(0s);
    eventfd_write(second.number(), 1);
    CHECK(time_of([&] { waiter->sleep(10s); }) < 5s);
  }
}

TEST_CASE("waiter: who looks before it sleeps misses no news", "[transport][stress]") {
  auto mine = Waiter::make().value();
  auto theirs = Waiter::make().value();
  std::atomic<int> ball{0};
  constexpr int kRounds = 20'000;
  const auto play = [&](Waiter& own, Waiter& other, int parity) {
    for (int turn = parity; turn < kRounds; turn += 2) {
      while (ball.load() != turn) {
        own.prepare();
        if (ball.load() != turn) own.sleep(5s);
        own.awake();
      }
      ball.store(turn + 1);
      other.ring_if_asleep();
    }
  };
  const auto took = time_of([&] {
    std::thread other([&] { play(*theirs, *mine, 1); });
    play(*mine, *theirs, 0);
    other.join();
  });
  CHECK(ball.load() == kRounds);
  CHECK(took < 60s);  // one missed ring would cost 5 s
}

TEST_CASE("waiter: one that shares its chime sleeps until it is meant itself",
          "[transport][unit]") {
  auto chime = Chime::make().value();
  auto mine = Waiter::make(chime).value();
  auto theirs = Waiter::make(chime).value();
  std::atomic<bool> is_awake{false};
  std::thread other([&] {
    theirs->sleep(120s);
    is_awake = true;
  });
  for (int i = 0; i < 100; i++) {
    mine->ring();
    CHECK(time_of([&] { mine->sleep(120s); }) < 60s);
  }
  CHECK_FALSE(is_awake);
  theirs->ring();
  other.join();
  // The ring is consumed and ends no further sleep.
  CHECK(time_of([&] { theirs->sleep(20ms); }) >= 19ms);
}

TEST_CASE("waiter: those of a rank have few descriptors, however many they are",
          "[transport][unit]") {
  const auto before = open_descriptors();
  {
    Chimes chimes;
    std::vector<std::shared_ptr<Waiter>> waiters;
    for (int i = 0; i < 500; i++) {
      waiters.push_back(Waiter::make(chimes.next().value()).value());
      waiters.back()->sleep(0s);
      waiters.back()->ring();
      CHECK(time_of([&] { waiters.back()->sleep(10s); }) < 5s);
    }
    CHECK(open_descriptors() - before < 30);
  }
  CHECK(open_descriptors() - before < 10);
}

TEST_CASE("waiter: who sleeps by other means sees rings, but not those before",
          "[transport][unit]") {
  auto waiter = Waiter::make().value();
  auto beside = Waiter::make(waiter->doorbell()->chime().shared_from_this()).value();
  const auto is_readable = [](const Waiter::Place& place) {
    pollfd watched{place.descriptor(), POLLIN, 0};
    return ::poll(&watched, 1, 0) == 1;
  };
  waiter->ring();
  CHECK(waiter->rung());
  waiter->sleep(0s);
  CHECK_FALSE(waiter->rung());
  beside->ring();
  auto place = waiter->place();
  CHECK_FALSE(is_readable(place));
  CHECK_FALSE(waiter->rung());
  waiter->ring();
  CHECK(is_readable(place));
  CHECK(waiter->rung());
}

TEST_CASE("waiter: several are waited for at once, also where they share a chime",
          "[transport][unit]") {
  Chimes chimes;
  std::vector<std::shared_ptr<Waiter>> waiters;
  for (int i = 0; i < 10; i++) waiters.push_back(Waiter::make(chimes.next().value()).value());
  for (const auto& rung : waiters) {
    CommonSleep sleep;
    for (const auto& each : waiters) sleep.add(*each);
    std::thread other([&] { rung->ring(); });
    CHECK(time_of([&] { sleep.sleep(10s); }) < 5s);
    other.join();
    CHECK(rung->rung());
    for (const auto& each : waiters) each->sleep(0s);
  }
}

TEST_CASE("waiter: without a descriptor for its sleep it naps until it is rung",
          "[transport][unit]") {
  auto chime = Chime::make().value();
  auto waiter = Waiter::make(chime).value();
  const auto taken = chime->lease_set();
  // A sanitizer opens a pipe when a thread begins.
  std::latch has_begun(1);
  std::latch may_ring(1);
  std::thread other([&] {
    has_begun.count_down();
    may_ring.wait();
    std::this_thread::sleep_for(20ms);
    waiter->ring();
  });
  has_begun.wait();
  const testing::LimitedDescriptors none(0);
  CHECK(chime->lease_set().descriptor() == -1);
  CHECK(time_of([&] { waiter->sleep(20ms); }) >= 19ms);
  may_ring.count_down();
  CHECK(time_of([&] { waiter->sleep(10s); }) < 5s);
  other.join();
}
