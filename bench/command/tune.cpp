// SPDX-License-Identifier: Apache-2.0
#include "bench/command/tune.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "bench/command/columns.hpp"
#include "bench/measure/links.hpp"
#include "bench/measure/rows.hpp"
#include "comm/groups/costs.hpp"

namespace ccoll::bench {

namespace {

/// With more cores, nobody starts four ranks per core or waits for them.
constexpr int kMostCores = 16;
/// How often everything is timed: a temporary disturbance hits one of them.
constexpr int kRounds = 3;

/// Every algorithm of every operation, from pure-latency messages to many windows.
Options what_to_measure(const Options& asked) {
  Options options = asked;
  options.ops.clear();
  for (const Operation& operation : operations())
    if (operation.kind && !operation.ragged) options.ops.push_back(&operation);
  options.algorithms = all_algorithms();
  options.sizes = {
      .begin = 8, .end = std::min<std::uint64_t>(asked.sizes.end, 2 << 20), .factor = 8};
  options.effort = {.iters = kBatches, .warmup = 1};
  options.check = false;
  return options;
}

std::string line_of(std::string_view what, const CostTable& costs,
                    const std::vector<Measured>& measured) {
  const Accuracy accuracy = assess(costs, measured);
  return fmt::format("  {:<8}{:>9.2f} µs{:>9.2f} µs{:>9.2f} GB/s{:>9.2f} GB/s{:>8.2f}{:>8.2f}\n",
                     what, costs.links.latency_ns / 1e3, costs.links.step_ns / 1e3,
                     costs.links.bandwidth_bytes_per_s / 1e9, costs.reduce_bytes_per_s / 1e9,
                     accuracy.off, accuracy.picks);
}

void keep(const LinkKind& kind, const KeptRows& rows, int lanes, double seconds, int ranks) {
  const std::string path = tuning_path();
  Tuning tuning = load_tuning();
  const auto costs_by = [&](const Tuning& by) {
    return costs_over(kind.transport, kind.cores_per_rank, kind.one_host, by);
  };
  const std::vector<Measured> measured = measured_of(rows.all(), costs_by(tuning), lanes);
  const CostTable estimates = costs_by({});
  const MeasuredCosts fitted = fit(estimates, measured);
  const CostTable now = with(estimates, fitted);
  const std::string name = link_class(kind.transport, kind.cores_per_rank < 1, kind.one_host);
  tuning.erase(name);
  // Estimates that cannot be improved are not written.
  if (now != estimates) tuning[name] = fitted;
  fmt::print("{}: {} ranks, {} calls of every algorithm timed in {:.1f} s\n", name, ranks,
             measured.size(), seconds);
  fmt::print("  {:<8}{:>12}{:>12}{:>14}{:>14}{:>8}{:>8}\n", "", "latency", "message", "per link",
             "reduction", "off by", "picks");
  fmt::print("{}{}", line_of("estimate", estimates, measured), line_of("now", now, measured));
  const auto saved = save_tuning(tuning, path);
  if (!saved) throw Error(saved.error().kind, "tune: " + saved.error().message);
  const auto legend = fmt::format(
      "  in {}\n  off by: the factor between predicted and measured; picks: how much longer the "
      "chosen algorithms take than the best\n",
      path);
  fmt::print("{}", wrapped_lines(legend, output_columns()));
}

}  // namespace

std::vector<TuneJob> tune_jobs(int cores) {
  std::vector<TuneJob> jobs;
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    if (cores >= 2) jobs.push_back({transport, std::min(cores, 8)});
    if (cores <= kMostCores) jobs.push_back({transport, std::max(2, 4 * cores)});
  }
  return jobs;
}

void tune(Communicator& communicator, const Options& options) {
  using Clock = std::chrono::steady_clock;
  const LinkKind kind = kind_of_links(communicator, "tune");
  const bool first = communicator.rank() == 0;
  if (const auto path = check_tuning_path(tuning_path()); first && !path)
    throw Error(path.error().kind, "tune: " + path.error().message);
  const Options what = what_to_measure(options);
  KeptRows rows;
  const auto begin = Clock::now();
  for (int round = 0; round < kRounds; ++round)
    measure_rows(communicator, what, first ? &rows : nullptr);
  if (!first) return;
  const int lanes =
      options.lanes > 0 ? options.lanes : CommunicatorOptions::from_environment().max_lanes;
  keep(kind, rows, lanes, std::chrono::duration<double>(Clock::now() - begin).count(),
       communicator.size());
}

}  // namespace ccoll::bench
