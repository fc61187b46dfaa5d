// SPDX-License-Identifier: Apache-2.0
// Goodbyes that are lost on the way.
#include <catch2/catch.hpp>

#include "faults/faults.hpp"
#include "support/ranks.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

TEST_CASE("faults: who hears a rank's goodbye and who counts it as lost fail together",
          "[faults]") {
  const auto cuts = [] { return faults::counts()[static_cast<std::size_t>(faults::Kind::cut)]; };
  // Rank 0 says goodbye to rank 1 and then to rank 2: one of the connections ends instead.
  for (const int number : {1, 2}) {
    auto ranks = Communicator::create_all(3, options_for("inproc"));
    run_threads(3, [&](int rank) { ranks[static_cast<std::size_t>(rank)].barrier(); });
    const auto before = cuts();
    faults::arm(faults::parse("cut@send:" + std::to_string(number)), -1);
    message_of([&] { ranks[0].close(); });  // it may see that end, too
    while (cuts() == before) std::this_thread::sleep_for(1ms);
    faults::disarm();
    const auto start = std::chrono::steady_clock::now();
    const auto errors = run_threads(3, [&](int rank) {
      if (rank == 0) return;
      auto& own = ranks[static_cast<std::size_t>(rank)];
      int value = 0;
      throw std::runtime_error(message_of([&] {
        // One waits for rank 0, the other only for that one.
        if (rank == number)
          own.barrier();
        else
          own.recv(&value, 1, DataType::int32, number, 0);
      }));
    });
    CHECK(std::chrono::steady_clock::now() - start < 10s);
    for (const int rank : {1, 2}) {
      CAPTURE(number, rank);
      // Of rank 0, but where something else was sent first: then of the other end of that one.
      CHECK_THAT(errors[static_cast<std::size_t>(rank)],
                 Contains("peer_lost: ") && Contains(" was lost: "));
    }
  }
}
