// SPDX-License-Identifier: Apache-2.0
#include "show/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/measure.hpp"
#include "bench/sizes.hpp"
#include "comm/costs.hpp"
#include "comm/tuning.hpp"
#include "rendezvous/identity.hpp"
#include "show/local_ranks.hpp"

namespace ccoll::show {

namespace {

constexpr std::string_view kTransport = "inproc";
/// Enough for a median.
constexpr bench::Effort kEffort{.iters = 270, .warmup = 10};

/// What the library goes by among `ranks` threads of one process, and the same as a network.
struct Here {
  CostTable costs;
  sim::Network network;
  bool is_measured = false;
};

Here costs_here(Rank ranks) {
  const auto cores = static_cast<Rank>(usable_cores());
  const double per_rank = static_cast<double>(cores) / ranks;
  const Tuning tuning = load_tuning();
  Here here;
  here.is_measured = tuning.contains(link_class(kTransport, per_rank < 1, true));
  here.costs = costs_over(kTransport, per_rank, true, tuning);
  here.network.inside = here.network.across = here.costs.links;
  here.network.moved_by_ranks = true;
  here.network.lent_in_place = true;
  here.network.reduce_bytes_per_s = here.costs.reduce_bytes_per_s;
  here.network.slot_bytes = here.costs.slot_bytes;
  here.network.cores_per_node = cores;
  return here;
}

/// One call that is measured and simulated.
struct Case {
  Algorithm algorithm;
  std::uint64_t bytes;
  double predicted_us;
  double measured_us = 0;
};

/// Algorithms for several hosts have nothing to do on one.
std::vector<Case> cases_of(const Question& question, const Here& here, Rank ranks) {
  std::vector<Case> cases;
  const bool has_data = question.operation->has_data;
  const std::size_t elem_bytes = has_data ? size_of(question.type) : 1;
  for (const Algorithm algorithm : question.algorithms) {
    for (const std::uint64_t bytes : question.bytes) {
      const int size = static_cast<int>(ranks);
      const std::uint64_t unit = bench::size_unit(*question.operation, question.type, size);
      if (has_data && bytes < unit) continue;
      const Problem problem =
          bench::problem_of(*question.operation, question.type, size,
                            static_cast<int>(question.root), bytes - bytes % unit);
      const Chosen chosen =
          choose(problem, elem_bytes, here.costs,
                 {.algorithm = algorithm, .max_lanes = {}, .order = CombineOrder::any});
      if (chosen.choice.algorithm != algorithm) continue;
      const auto simulated = sim::simulate(here.network, problem, elem_bytes, chosen.choice);
      if (!simulated) continue;
      cases.push_back({algorithm, bytes - bytes % unit,
                       static_cast<double>(simulated->outcome.returned) / 1e6});
    }
  }
  return cases;
}

/// One rank's part in measuring all cases; rank 0 keeps the times.
void measure_cases(const Question& question, Communicator& communicator, std::vector<Case>& cases) {
  const bench::Operation& operation = *question.operation;
  for (Case& one : cases) {
    const std::uint64_t count =
        bench::count_of(operation, question.type, communicator.size(), one.bytes);
    const bench::Layout layout = operation.layout({.size = communicator.size(),
                                                   .rank = communicator.rank(),
                                                   .root = static_cast<int>(question.root),
                                                   .count = count});
    std::vector<std::byte> input(
        std::max<std::size_t>(1, layout.input_elems * size_of(question.type)));
    std::vector<std::byte> output(
        std::max<std::size_t>(1, layout.output_elems * size_of(question.type)));
    bench::Arguments arguments{.input = input.data(),
                               .output = output.data(),
                               .count = count,
                               .type = question.type,
                               .op = ReduceOp::sum,
                               .root = static_cast<int>(question.root),
                               .options = {}};
    arguments.options.algorithm = to_string(one.algorithm);
    const bench::Timing timing =
        bench::measure(communicator, kEffort, [&] { operation.call(communicator, arguments); });
    if (communicator.rank() == 0) one.measured_us = timing.p50_us;
  }
}

/// What went wrong on the first rank that says so.
std::string measure_with_threads(const Question& question, Rank ranks, std::vector<Case>& cases) {
  std::vector<std::vector<Case>> own(ranks, cases);
  std::string wrong =
      on_every_rank(ranks, std::string(kTransport), [&](Communicator& communicator) {
        const auto rank = static_cast<std::size_t>(communicator.rank());
        measure_cases(question, communicator, own[rank]);
      });
  cases = std::move(own.front());
  return wrong;
}

std::string table_of(Rank ranks, const Here& here, const std::vector<Case>& cases) {
  std::string text =
      fmt::format("\n{} ranks, {} core{}, {} costs\n  {:<20}{:>8}{:>14}{:>14}{:>10}\n", ranks,
                  here.network.cores_per_node, here.network.cores_per_node == 1 ? "" : "s",
                  here.is_measured ? "measured" : "estimated", "algorithm", "bytes", "measured",
                  "simulated", "error");
  for (const Case& one : cases)
    text += fmt::format("  {:<20}{:>8}{:>14}{:>14}{:>10}\n", to_string(one.algorithm),
                        bench::short_size(one.bytes), time_text(one.measured_us),
                        time_text(one.predicted_us), error_text(one.predicted_us, one.measured_us));
  return text;
}

}  // namespace

double factor_off(double us, double measured) { return std::max(us / measured, measured / us); }

std::string error_text(double us, double measured) {
  const double percent = 100 * (us / measured - 1);
  return percent < 1000 ? fmt::format("{:+.0f} %", percent) : fmt::format("x{:.0f}", us / measured);
}

Result<Output> check_simulation(const Question& question) {
  for (const Rank ranks : question.ranks) {
    if (ranks < 2 || ranks > kMostRanksChecked)
      return fail(ErrorKind::invalid_argument, "--check with -n {}: expected 2 to {} ranks", ranks,
                  kMostRanksChecked);
  }
  std::string text =
      fmt::format("{} by threads of one process: real calls (median) and simulated\n",
                  question.operation->name);
  double logs = 0;
  std::size_t all = 0;
  bool all_measured = true;
  for (const Rank ranks : question.ranks) {
    const Here here = costs_here(ranks);
    std::vector<Case> cases = cases_of(question, here, ranks);
    const std::string wrong = measure_with_threads(question, ranks, cases);
    if (!wrong.empty()) return Output{fmt::format("{}\na call failed: {}\n", text, wrong), kWrong};
    text += table_of(ranks, here, cases);
    for (const Case& one : cases) logs += std::log(factor_off(one.predicted_us, one.measured_us));
    all += cases.size();
    all_measured = all_measured && here.is_measured;
  }
  if (all > 0)
    text += fmt::format("\nThe simulator is off by a factor of {:.2f} (geometric mean of {}).\n",
                        std::exp(logs / static_cast<double>(all)), all);
  if (!all_measured)
    text += "Estimated costs are no machine's: cc-bench tune measures those of this one.\n";
  return Output{text, 0};
}

}  // namespace ccoll::show
