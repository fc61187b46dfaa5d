// SPDX-License-Identifier: Apache-2.0
#include "show/commands/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/command/sizes.hpp"
#include "comm/groups/costs.hpp"
#include "comm/groups/tuning.hpp"
#include "rendezvous/identity.hpp"
#include "show/real/timed_calls.hpp"

namespace ccoll::show {

namespace {

/// If no costs are kept, they are fitted to calls of other sizes than those that people ask about,
/// so that no prediction knows its answer.
constexpr std::string_view kFittedOperation = "all_reduce";
constexpr std::uint64_t kFittedBytes[] = {40, 6 << 10, 384 << 10};

/// The library's costs for that many processes that share memory here.
struct Here {
  Rank cores = 1;
  CostTable costs;
  bool is_tuned = false;
};

Here here_with(Rank ranks) {
  Here here;
  here.cores = static_cast<Rank>(usable_cores());
  const double per_rank = static_cast<double>(here.cores) / ranks;
  const Tuning tuning = load_tuning();
  here.is_tuned = tuning.contains(link_class(kTimedTransport, per_rank < 1, true));
  here.costs = costs_over(kTimedTransport, per_rank, true, tuning);
  return here;
}

sim::Network network_of(const CostTable& costs, Rank cores) {
  sim::Network network;
  network.inside = network.across = costs.links;
  network.moved_by_ranks = true;
  network.reduce_bytes_per_s = costs.reduce_bytes_per_s;
  network.slot_bytes = costs.slot_bytes;
  network.cores_per_node = cores;
  return network;
}

/// One measured and simulated call.
struct Case {
  TimedCall call;
  Measured planned;  ///< as the library runs it; its time is unused
  double predicted_us = 0;
};

/// Algorithms for several hosts do not apply on one.
std::vector<Case> cases_of(const Question& question, const CostTable& costs, Rank ranks) {
  std::vector<Case> cases;
  const bench::Operation& operation = *question.operation;
  const std::size_t elem_bytes = operation.has_data ? size_of(question.type) : 1;
  const int size = static_cast<int>(ranks);
  const std::uint64_t unit = bench::size_unit(operation, question.type, size);
  for (const Algorithm algorithm : question.algorithms) {
    for (const std::uint64_t asked : question.bytes) {
      if (operation.has_data && asked < unit) continue;
      Case one;
      one.call = {&operation, algorithm, asked - asked % unit, question.type, question.root, {}};
      one.planned.problem = bench::problem_of(operation, question.type, size,
                                              static_cast<int>(question.root), one.call.bytes);
      one.planned.elem_bytes = elem_bytes;
      one.planned.choice =
          choose(one.planned.problem, elem_bytes, costs,
                 {.algorithm = algorithm, .max_lanes = {}, .order = CombineOrder::any})
              .choice;
      if (one.planned.choice.algorithm == algorithm) cases.push_back(std::move(one));
    }
  }
  return cases;
}

Question question_for_costs() {
  Question question;
  question.operation = bench::find_operation(kFittedOperation);
  question.algorithms = algorithms_of(*question.operation);
  question.bytes.assign(std::begin(kFittedBytes), std::end(kFittedBytes));
  return question;
}

/// The costs fitted to all measured calls together.
CostTable fitted_to(const CostTable& costs, const std::vector<Case>& cases) {
  std::vector<Measured> measured;
  for (const Case& one : cases) {
    if (!one.call.median_us) continue;
    measured.push_back(one.planned);
    measured.back().ns = *one.call.median_us * 1e3;
  }
  return with(costs, fit(costs, measured));
}

/// Fills in the times of all cases.
Status time_cases(Rank ranks, std::initializer_list<std::vector<Case>*> lists) {
  std::vector<TimedCall> calls;
  for (const auto* list : lists)
    for (const Case& one : *list) calls.push_back(one.call);
  CCOLL_TRY(time_calls(ranks, calls));
  auto next = calls.begin();
  for (auto* list : lists)
    for (Case& one : *list) one.call = *next++;
  return {};
}

/// The results for one number of ranks.
struct Checked {
  std::vector<Case> cases;
  CostTable costs;
  std::string source;  ///< of the costs
  Rank cores = 1;
};

Result<Checked> check_among(const Question& question, Rank ranks) {
  const Here here = here_with(ranks);
  Checked checked{cases_of(question, here.costs, ranks), here.costs, "kept by cc-bench tune",
                  here.cores};
  std::vector<Case> fitted;
  if (!here.is_tuned) fitted = cases_of(question_for_costs(), here.costs, ranks);
  CCOLL_TRY(time_cases(ranks, {&fitted, &checked.cases}));
  if (!here.is_tuned) {
    checked.costs = fitted_to(here.costs, fitted);
    checked.source = fmt::format("fitted to {} other calls", fitted.size());
  }
  const sim::Network network = network_of(checked.costs, here.cores);
  for (Case& one : checked.cases) {
    const auto simulated =
        sim::simulate(network, one.planned.problem, one.planned.elem_bytes, one.planned.choice);
    CCOLL_TRY(simulated);
    one.predicted_us = static_cast<double>(simulated->outcome.returned) / 1e6;
  }
  return checked;
}

std::string table_of(Rank ranks, const Checked& checked) {
  const LinkCosts& links = checked.costs.links;
  std::string text = fmt::format(
      "\n{} ranks on {} core{}\n"
      "  costs, {}: latency {}, {} a message at each end, {:.3g} GB/s\n"
      "  {:<20}{:>8}{:>14}{:>14}{:>10}\n",
      ranks, checked.cores, checked.cores == 1 ? "" : "s", checked.source,
      time_text(links.latency_ns / 1e3), time_text(links.step_ns / 1e3),
      links.bandwidth_bytes_per_s / 1e9, "algorithm", "bytes", "measured", "simulated", "error");
  for (const auto& [call, planned, predicted_us] : checked.cases) {
    const std::string bytes = call.operation->has_data ? bench::short_size(call.bytes) : "-";
    text += fmt::format("  {:<20}{:>8}{:>14}{:>14}{:>10}\n", to_string(call.algorithm), bytes,
                        call.median_us ? time_text(*call.median_us) : "-", time_text(predicted_us),
                        call.median_us ? error_text(predicted_us, *call.median_us) : "-");
  }
  return text;
}

/// The total error of all predictions.
class Verdict {
 public:
  void add(const std::vector<Case>& cases) {
    for (const Case& one : cases) {
      if (one.call.median_us) {
        logs_ += std::log(factor_off(one.predicted_us, *one.call.median_us));
        ++timed_;
      } else {
        ++left_;
      }
    }
  }

  std::string text() const {
    std::string text;
    if (left_ > 0)
      text +=
          fmt::format("\n{} calls were not made: {} s, the time for a number of ranks, was over.\n",
                      left_, kMostSecondsTimed);
    if (timed_ > 0)
      text += fmt::format("\nThe simulator is off by a factor of {:.2f} (geometric mean of {}).\n",
                          std::exp(logs_ / static_cast<double>(timed_)), timed_);
    return text;
  }

 private:
  double logs_ = 0;
  std::size_t timed_ = 0;
  std::size_t left_ = 0;
};

Status check_question(const Question& question) {
  for (const Rank ranks : question.ranks) {
    if (ranks < 2 || ranks > kMostRanksChecked)
      return fail(ErrorKind::invalid_argument, "--check with -n {}: expected 2 to {} ranks", ranks,
                  kMostRanksChecked);
  }
  if (question.bytes.back() > kMostBytesChecked)
    return fail(ErrorKind::invalid_argument, "--check with -b {}: expected at most {}",
                bench::short_size(question.bytes.back()), bench::short_size(kMostBytesChecked));
  return {};
}

}  // namespace

double factor_off(double us, double measured) { return std::max(us / measured, measured / us); }

std::string error_text(double us, double measured) {
  const double percent = 100 * (us / measured - 1);
  return percent < 1000 ? fmt::format("{:+.0f} %", percent) : fmt::format("x{:.0f}", us / measured);
}

Result<Output> check_simulation(const Question& question) {
  CCOLL_TRY(check_question(question));
  std::string text =
      fmt::format("{} by processes that share memory: real calls (median) and simulated\n",
                  question.operation->name);
  Verdict verdict;
  for (const Rank ranks : question.ranks) {
    const auto checked = check_among(question, ranks);
    if (!checked)
      return Output{fmt::format("{}\nnot measured: {}\n", text, checked.error().message), kWrong};
    text += table_of(ranks, *checked);
    verdict.add(checked->cases);
  }
  return Output{text + verdict.text(), 0};
}

}  // namespace ccoll::show
