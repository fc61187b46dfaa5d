// SPDX-License-Identifier: Apache-2.0
#include "sim/arrivals.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "algorithms/algorithms.hpp"
#include "rounds/rounds.hpp"
#include "sim/simulate.hpp"

namespace ccoll::sim {
namespace {

TEST_CASE("arrivals: every message comes once, in order, and the last before all is ready",
          "[sim][property]") {
  Network network;
  network.inside.latency_ns = 1000;
  network.inside.bandwidth_bytes_per_s = network.port_bytes_per_s = 1e9;
  for (const CatalogueEntry& entry : catalogue()) {
    if (entry.by_host) continue;
    for (const Rank size : {2, 3, 8}) {
      Problem problem;
      problem.kind = entry.kind;
      problem.size = size;
      problem.count = entry.kind == Kind::barrier ? 1 : 120 * size;
      CAPTURE(to_string(entry.kind), to_string(entry.algorithm), size);
      const Choice choice = one_window(problem, entry.algorithm);
      const auto arrivals = arrivals_of(network, problem, 4, choice);
      REQUIRE(arrivals);
      std::uint64_t messages = 0;
      Picoseconds last = 0;
      for (const Arrivals& each : *arrivals) {
        CHECK(each.from < size);
        CHECK(each.to < size);
        CHECK(std::ranges::is_sorted(each.times));
        messages += each.times.size();
        if (!each.times.empty()) last = std::max(last, each.times.back());
      }
      CHECK(messages == entry.theory(problem).total.messages);
      const auto simulated = simulate(network, problem, 4, choice, {.plain = true});
      REQUIRE(simulated);
      CHECK(last <= simulated->outcome.ready);
      CHECK(last >= simulated->outcome.ready / 2);
    }
  }
}

}  // namespace
}  // namespace ccoll::sim
