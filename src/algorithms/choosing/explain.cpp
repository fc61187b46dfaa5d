// SPDX-License-Identifier: Apache-2.0

/// The text that `cc-bench explain` prints.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "algorithms/algorithms.hpp"

namespace ccoll {

std::string explain(const Problem& asked, DataType type, const CostTable& costs,
                    const Forced& forced, std::span<const Measured> measured) {
  const std::size_t elem_bytes = size_of(type);
  const Chosen chosen = choose(asked, elem_bytes, costs, forced);
  const Problem problem = as_all_see_it(asked, elem_bytes);
  const CatalogueEntry* picked = find_algorithm(problem.kind, chosen.choice.algorithm);
  const std::uint64_t windows =
      window_count(problem, picked->theory(problem).blocks, chosen.choice);
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{}{} of {}{} {} ({} bytes{}) over {} ranks\n\n", to_string(problem.kind),
                 asked.block_counts.empty() ? "" : "_v",
                 sizes_are_private(asked) ? "presumably " : "", problem.count, to_string(type),
                 problem.count * elem_bytes, divides_whole_buffer(problem.kind) ? "" : " per rank",
                 problem.size);
  const auto time_of = [&](Algorithm algorithm) {
    const auto found = std::ranges::find_if(measured, [&](const Measured& one) {
      return one.problem == asked && one.choice.algorithm == algorithm;
    });
    return found == measured.end() ? std::string(measured.empty() ? 0 : 12, ' ')
                                   : fmt::format("{:>9.1f} µs", found->ns / 1e3);
  };
  fmt::format_to(out, "  {:<20}{:>12}{:>{}}{:>8}{:>11}{:>10}{:>14}\n", "algorithm", "predicted",
                 measured.empty() ? "" : "measured", measured.empty() ? 0 : 12, "depth",
                 "roundings", "messages", "bytes sent");
  for (const Candidate& candidate : chosen.candidates) {
    const Theory theory = find_algorithm(problem.kind, candidate.algorithm)->theory(problem);
    fmt::format_to(out, "{} {:<20}{:>9.1f} µs{}{:>8}{:>11}{:>10}{:>14}\n",
                   candidate.algorithm == chosen.choice.algorithm ? '*' : ' ',
                   to_string(candidate.algorithm), candidate.predicted_ns / 1e3,
                   time_of(candidate.algorithm), theory.depth, candidate.roundings,
                   theory.busiest.messages, theory.busiest.elems_sent * elem_bytes);
  }
  fmt::format_to(
      out,
      "\nMessages (of one window) and bytes are those of the busiest rank; roundings are "
      "those of a 16-bit float.\n");
  const auto passes =
      windows == 0 ? "no data to move"
                   : fmt::format("{} window{} of {} bytes per block", windows,
                                 windows == 1 ? "" : "s", chosen.choice.slice_elems * elem_bytes);
  fmt::format_to(out, "Chosen: {} with {} lane{}, {}: {}.\n", to_string(chosen.choice.algorithm),
                 chosen.choice.lanes, chosen.choice.lanes == 1 ? "" : "s", passes, chosen.reason());
  fmt::format_to(out,
                 "Cost table: latency {:.2f} µs, {:.2f} GB/s per link, {:.2f} µs per message, "
                 "reduction {:.2f} GB/s, {:.2f} cores per rank.\n",
                 costs.links.latency_ns / 1e3, costs.links.bandwidth_bytes_per_s / 1e9,
                 costs.links.step_ns / 1e3, costs.reduce_bytes_per_s / 1e9, costs.cores_per_rank);
  if (!problem.host_of.empty())
    fmt::format_to(out,
                   "Inside a host: latency {:.2f} µs, {:.2f} GB/s per link, {:.2f} µs per "
                   "message.\n",
                   costs.inside.latency_ns / 1e3, costs.inside.bandwidth_bytes_per_s / 1e9,
                   costs.inside.step_ns / 1e3);
  return text;
}

}  // namespace ccoll
