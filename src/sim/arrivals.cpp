// SPDX-License-Identifier: Apache-2.0
#include "sim/arrivals.hpp"

#include <cstddef>

#include "sim/run.hpp"
#include "sim/system.hpp"

namespace ccoll::sim {

Result<std::vector<Arrivals>> arrivals_of(const Network& network, const Problem& problem,
                                          std::size_t elem_bytes, const Choice& choice) {
  const auto system = make_system(problem, choice, elem_bytes, network, {.kept = problem.size});
  if (!system) return tl::unexpected(system.error());
  std::vector<std::vector<Picoseconds>> times(system->links.size());
  RunOptions options;
  options.skip_repetitions = false;
  options.arrivals = &times;
  const auto outcome = run(*system, options);
  if (!outcome) return tl::unexpected(outcome.error());
  // The lanes of a rank are consecutive.
  std::vector<std::uint16_t> numbers(system->lanes.size(), 0);
  for (std::size_t lane = 1; lane < numbers.size(); ++lane) {
    if (system->lanes[lane].rank == system->lanes[lane - 1].rank)
      numbers[lane] = static_cast<std::uint16_t>(numbers[lane - 1] + 1);
  }
  std::vector<Arrivals> all;
  for (std::size_t number = 0; number < times.size(); ++number) {
    const SimLink& link = system->links[number];
    all.push_back({system->lanes[link.from_lane].rank, numbers[link.from_lane],
                   system->lanes[link.to_lane].rank, std::move(times[number])});
  }
  return all;
}

}  // namespace ccoll::sim
