// SPDX-License-Identifier: Apache-2.0
// Goodbyes that are lost, and goodbyes that arrive beside another failure.
#include <time.h>

#include <catch2/catch.hpp>
#include <thread>

#include "faults/faults.hpp"
#include "support/eventually.hpp"
#include "support/ranks.hpp"
#include "support/real_time.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

TEST_CASE("faults: who hears a rank's goodbye and who counts it as lost fail together",
          "[faults]") {
  const auto cuts = [] { return faults::counts()[static_cast<std::size_t>(faults::Kind::cut)]; };
  // Rank 0 says goodbye to rank 1 and then to rank 2: one of the connections is cut instead.
  for (const int number : {1, 2}) {
    auto ranks = Communicator::create_all(3, options_for("inproc"));
    run_threads(3, [&](int rank) { ranks[static_cast<std::size_t>(rank)].barrier(); });
    const auto before = cuts();
    faults::arm(faults::parse("cut@send:" + std::to_string(number)), -1);
    message_of([&] { ranks[0].close(); });  // it may see that cut, too
    CHECK(eventually([&] { return cuts() != before; }));
    faults::disarm();
    const auto start = std::chrono::steady_clock::now();
    const auto errors = run_threads(3, [&](int rank) {
      if (rank == 0) return;
      auto& own = ranks[static_cast<std::size_t>(rank)];
      int value = 0;
      throw std::runtime_error(message_of([&] {
        // One rank waits for rank 0, the other only for that rank.
        if (rank == number)
          own.barrier();
        else
          own.recv(Block(&value, 1, DataType::int32), number, 0);
      }));
    });
    CHECK(std::chrono::steady_clock::now() - start < 10s);
    for (const int rank : {1, 2}) {
      CAPTURE(number, rank);
      // It names rank 0, or the other end if another message was cut first.
      CHECK_THAT(errors[static_cast<std::size_t>(rank)],
                 Contains("peer_lost: ") && Contains(" was lost: "));
    }
  }
}

TEST_CASE("faults: who waits for the cause of a cut link sleeps, whoever else has left",
          "[faults]") {
  const auto cuts = [] { return faults::counts()[static_cast<std::size_t>(faults::Kind::cut)]; };
  auto ranks = Communicator::create_all(3, options_for("tcp"));
  const auto send_one = [&] {
    const int value = 1;
    ranks[1].send(ConstBlock(&value, 1, DataType::int32), 0);
  };
  int value = 0, never = 0;
  run_threads(2, [&](int rank) {
    if (rank == 1) return send_one();
    ranks[0].recv(Block(&value, 1, DataType::int32), 1);
  });
  ranks[2].close();
  // Its connection would have come by then, if it had made one.
  leave_time(1200ms);
  auto received = ranks[0].recv_async(Block(&value, 1, DataType::int32), 1);
  const auto before = cuts();
  faults::arm(faults::parse("cut@sendmsg:1"), -1);
  std::jthread sender([&] { message_of(send_one); });
  CHECK(eventually([&] { return cuts() != before; }));
  faults::disarm();
  for (int i = 0; i < 20; i++) {
    message_of([&] { ranks[0].try_probe(1); });
    leave_time(5ms);  // rank 0 tells nobody when it has seen the cut
  }
  const auto worked = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  const auto start = worked();
  CHECK_THAT(message_of([&] { ranks[0].recv(Block(&never, 1, DataType::int32), 2); }),
             Contains("peer_lost: ") && Contains("rank 1"));
  CHECK((worked() - start).count() < 100'000'000);
  message_of([&] { received.wait(); });
}
