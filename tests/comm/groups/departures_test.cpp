// SPDX-License-Identifier: Apache-2.0
// Ranks that leave while others wait: messages sent before are delivered, and nobody waits for one
// that can never come.
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <optional>
#include <utility>

#include "comm/failures/departures.hpp"
#include "support/ranks.hpp"
#include "support/real_time.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using testing::expect;
using testing::message_of;
using testing::options_for;
using testing::run_ranks;
using testing::run_threads;

namespace {

class Event {
 public:
  void happen() {
    happened_ = true;
    happened_.notify_all();
  }
  void wait() const { happened_.wait(false); }

 private:
  std::atomic<bool> happened_ = false;
};

/// Called when the thread yields. It is a pointer so that a thread needs no memory for it: a
/// sanitizer that ends the process also yields, and allows no allocation.
thread_local constinit const std::function<void()>* on_yield = nullptr;

/// Ranks that this thread creates from here on are oversubscribed.
void share_one_core() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  std::size_t core = 0;
  while (!CPU_ISSET(core, &cores)) core++;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  sched_setaffinity(0, sizeof cores, &cores);
}

}  // namespace

/// Replaces the C library's function: anything may happen when a waiting rank yields its core.
extern "C" int sched_yield() noexcept {
  if (on_yield != nullptr) (*on_yield)();
  return static_cast<int>(syscall(SYS_sched_yield));
}

TEST_CASE("departures: each is told once, and a loss is known by whom it concerns", "[comm]") {
  using Clock = Departures::Clock;
  Departures departures;
  const auto failure_of = [](std::uint32_t rank) {
    return Failure{ErrorKind::peer_lost, "rank " + std::to_string(rank), rank};
  };
  const auto begin = Clock::now();
  CHECK(!departures.loss_behind());
  CHECK(!departures.last_loss());
  departures.add({1, Departure::left, failure_of(1), begin});
  CHECK(departures.take().size() == 1);
  CHECK(departures.take().empty());
  CHECK(!departures.loss_behind());
  departures.add({2, Departure::lost, failure_of(2), begin + 1s});
  departures.add({3, Departure::lost, failure_of(3), begin + 2s});
  departures.add({3, Departure::left, failure_of(3), begin + 3s});
  CHECK(departures.take().size() == 2);
  CHECK(departures.loss_behind()->culprit == 2U);
  CHECK(departures.loss_behind(failure_of(3))->culprit == 3U);
  CHECK(departures.loss_behind(failure_of(1))->culprit == 2U);
  CHECK(departures.last_loss() == begin + 2s);

  auto next = Clock::time_point::max();
  CHECK(departures.long_gone(1s, begin, next).empty());
  CHECK(next == begin + 1s);
  CHECK(departures.long_gone(1s, begin + 9s, next) == std::vector<Rank>{1});
}

TEST_CASE("departures: what came while a rank gave its core away is seen before the goodbye",
          "[comm]") {
  struct Job {
    const char* transport;
    int from;
    std::shared_ptr<Store> store = make_inproc_store();
    Event away = {}, gone = {}, over = {};
  };
  Job jobs[] = {{"inproc", kAnyRank}, {"shm", 2}, {"tcp", kAnyRank}, {"shm", kAnyRank}, {"tcp", 2}};
  constexpr int kRanks = 3;
  const auto errors = run_threads(kRanks * static_cast<int>(std::size(jobs)), [&](int thread) {
    auto& job = jobs[thread / kRanks];
    const int rank = thread % kRanks;
    share_one_core();
    std::optional<Communicator> world =
        Communicator::create(job.store, rank, kRanks, options_for(job.transport));
    world->barrier();
    int value = rank;
    if (rank == 0) {
      // It waits long enough first that only the goodbye is missing.
      const auto start = std::chrono::steady_clock::now() + 900ms;
      const std::function<void()> be_away = [&] {
        if (std::chrono::steady_clock::now() < start) return;
        on_yield = nullptr;
        job.away.happen();
        job.gone.wait();
        testing::be_late(1200ms);
      };
      on_yield = &be_away;
      const auto outcome = message_of([&] { world->recv(std::span(&value, 1), job.from, 5); });
      job.away.happen();
      job.over.happen();
      expect(outcome == "no error" && value == 2, outcome);
      expect(std::exchange(on_yield, nullptr) == nullptr, "it was away");
    } else if (rank == 2) {
      job.away.wait();
      world->send(std::span<const int>(&value, 1), 0, 5);
      world.reset();
      job.gone.happen();
    } else {
      job.over.wait();
    }
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("departures: who sent strictly and left is not waited for", "[comm]") {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    CAPTURE(transport);
    auto options = options_for(transport);
    options.strict_sends = true;
    const auto errors = run_ranks(2, options, [](Communicator& world) {
      std::array<int, 4> data{};
      if (world.rank() == 0) {
        // The first message opens the link on which the other is announced.
        world.send(std::span<const int>(data), 1, 4);
        world.send_async(std::span<const int>(data), 1, 3);
        return world.barrier();
      }
      world.recv(std::span(data), 0, 4);
      world.barrier();
      testing::be_late(200ms);
      const auto start = std::chrono::steady_clock::now();
      const auto outcome = message_of([&] { world.recv(std::span(data), 0, 3); });
      expect(outcome == "no error" || outcome.ends_with("which left"), outcome);
      expect(std::chrono::steady_clock::now() - start < 5s, "it took too long");
    });
    // If its time is over, rank 0 hears that its send failed.
    CHECK(errors[1] == "");
  }
}
