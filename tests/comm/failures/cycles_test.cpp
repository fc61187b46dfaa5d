// SPDX-License-Identifier: Apache-2.0
// Ranks that wait for each other in a cycle, each in a communicator that it shares with the next.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <latch>

#include "support/effort.hpp"
#include "support/ranks.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using testing::holds_at_last;
using testing::message_of;
using testing::run_ranks;

namespace {

/// The errors of `size` ranks (an even number), each of which waits for the next.
std::vector<std::string> go_in_a_cycle(int size, const std::string& name) {
  CommunicatorOptions options;
  options.transport = "inproc";
  // If a rank begins 0.5 s before another, it times out before that one reports for which rank it
  // waits.
  std::latch ready(size), told(size);
  return run_ranks(size, options, [&](Communicator& world) {
    const int rank = world.rank();
    const GroupOptions pair{.name = name, .timeout = 4s};
    auto even = world.split(rank / 2, 0, pair);
    auto odd = world.split((rank + 1) % size / 2, 0, pair);
    ready.arrive_and_wait();
    const auto error = message_of([&] { (rank % 2 == 0 ? even : odd)->barrier(); });
    // A rank that left before the others have their errors would cause another error.
    told.arrive_and_wait();
    throw std::runtime_error(error);
  });
}

}  // namespace

TEST_CASE("cycles: among many ranks and communicators are found, with every rank's call",
          "[comm]") {
  const int size = 12;
  std::vector<std::string> errors;
  const auto are_told = [&] {
    errors = go_in_a_cycle(size, "pair");
    return std::ranges::all_of(errors, [&](const auto& error) {
      for (int rank = 0; rank < size; rank++)
        if (error.find(fmt::format("for rank {}", rank)) == std::string::npos) return false;
      return error.find("timed_out: ") != std::string::npos &&
             error.find("; a cycle") != std::string::npos;
    });
  };
  const bool told = holds_at_last(are_told);
  CAPTURE(errors);
  CHECK(told);
}

TEST_CASE("cycles: of which not all fits name the first ranks, and tell how many there are",
          "[comm]") {
  const int size = 26;
  std::vector<std::string> errors;
  const auto are_told = [&] {
    errors = go_in_a_cycle(size, std::string(100, 'x'));
    for (int rank = 0; rank < size; rank++)
      for (const auto& part : {fmt::format(": rank {} waits in barrier #0", rank),
                               fmt::format(", which waits for rank {}", (rank + 8) % size),
                               fmt::format("... ({} ranks), which waits for rank {}", size, rank)})
        if (errors[static_cast<std::size_t>(rank)].find(part) == std::string::npos) return false;
    return true;
  };
  const bool told = holds_at_last(are_told);
  CAPTURE(errors);
  CHECK(told);
}
