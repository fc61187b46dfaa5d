// SPDX-License-Identifier: Apache-2.0
#include "sim/simulate.hpp"

#include <algorithm>

#include "sim/system.hpp"

namespace ccoll::sim {
namespace {

/// Number of ranks after which all repeats if blocks are alike; all ranks if nothing repeats.
Rank ranks_alike_after(const CatalogueEntry& entry, const Network& network, Rank size) {
  if (!entry.rotates) return size;
  const Rank beside = network.ranks_per_node;
  if (network.nodes(size) == 1) {
    const bool share_cores = network.cores_per_node > 0 && network.cores_per_node < size;
    return share_cores || entry.by_host ? size : 1;
  }
  return size % beside == 0 ? beside : size;
}

/// Enough to see whether windows repeat, if they do so soon.
constexpr std::uint64_t kWindowsToRepeat = 8;
/// Half of the windows of a line, at most and at least.
constexpr std::uint64_t kMostForLine = 128;
constexpr std::uint64_t kLeastForLine = 8;

class Simulation {
 public:
  Simulation(const Network& network, const CatalogueEntry& entry, const Problem& problem,
             std::size_t elem_bytes, const Choice& choice, const SimulateOptions& options)
      : network_(network),
        entry_(entry),
        problem_(problem),
        elem_bytes_(elem_bytes),
        options_(options),
        theory_(entry.theory(problem)) {
    result_.choice = choice;
    result_.count = problem.count;
    result_.windows = window_count(problem, theory_.blocks, choice);
  }

  Result<Simulated> run() {
    CCOLL_TRY(check_messages());
    decide_kept();
    const std::uint64_t steps_per_window =
        std::max<std::uint64_t>(1, theory_.total.messages / problem_.size * result_.kept);
    CCOLL_TRY(check_steps(steps_per_window));
    // If there are no more windows than a line needs, all are simulated.
    const bool all =
        options_.plain ||
        result_.windows <= std::max(options_.max_steps / steps_per_window, 2 * kLeastForLine);
    auto outcome = run_count(problem_.count, all ? UINT64_MAX : kWindowsToRepeat * steps_per_window,
                             !options_.plain);
    if (!outcome && outcome.error().kind == ErrorKind::exhausted) {
      const std::uint64_t half =
          std::clamp(options_.max_steps / 12 / steps_per_window, kLeastForLine, kMostForLine);
      outcome = run_line(half);
    }
    if (!outcome) return tl::unexpected(outcome.error());
    result_.outcome = *outcome;
    return result_;
  }

 private:
  Status check_messages() {
    const std::uint64_t messages = theory_.total.messages;
    // Compare by division: the product may not fit 64 bits.
    if (result_.windows > 0 && messages > options_.max_messages / result_.windows)
      return fail(ErrorKind::unsupported, "{:.1e} messages are more than the limit of {:.0e}",
                  static_cast<double>(messages) * static_cast<double>(result_.windows),
                  static_cast<double>(options_.max_messages));
    result_.messages = messages * result_.windows;
    return {};
  }

  Status check_steps(std::uint64_t steps_per_window) const {
    // Steps of the shortest line: its full run, and a separate run of half of it.
    const std::uint64_t windows = std::min(result_.windows, 3 * kLeastForLine);
    if (windows == 0 || steps_per_window <= options_.max_steps_in_all / windows) return {};
    return fail(ErrorKind::unsupported, "{:.1e} steps are more than the limit of {:.0e}",
                static_cast<double>(steps_per_window) * static_cast<double>(windows),
                static_cast<double>(options_.max_steps_in_all));
  }

  /// Ranks are alike if their blocks are; blocks may be made alike for that.
  void decide_kept() {
    const Rank alike = ranks_alike_after(entry_, network_, problem_.size);
    result_.kept = options_.plain || result_.windows == 0 ? problem_.size : alike;
    const std::uint64_t longer = problem_.count % theory_.blocks;
    if (result_.kept == problem_.size || !divides_whole_buffer(problem_.kind) || longer == 0)
      return;
    Problem even = problem_;
    even.count += theory_.blocks - longer;
    // Programs have all steps, even those of empty blocks.
    if (entry_.theory(even).total.messages <= options_.max_messages_unlike / result_.windows) {
      result_.kept = problem_.size;
      return;
    }
    problem_ = even;
    result_.count = even.count;
  }

  Result<Outcome> run_count(std::uint64_t count, std::uint64_t max_steps, bool may_repeat) const {
    Problem problem = problem_;
    problem.count = count;
    const auto system = make_system(
        problem, result_.choice, elem_bytes_, network_,
        {.kept = result_.kept, .all_shared = options_.plain, .max_bytes = options_.max_bytes});
    if (!system) return tl::unexpected(system.error());
    return sim::run(*system, {.skip_repetitions = may_repeat, .max_steps = max_steps});
  }

  Result<Outcome> run_line(std::uint64_t half) {
    const std::uint64_t blocks = divides_whole_buffer(problem_.kind) ? theory_.blocks : 1;
    const std::uint64_t count = half * result_.choice.slice_elems * blocks;
    const auto shorter = run_count(count, UINT64_MAX, false);
    if (!shorter) return shorter;
    auto outcome = run_count(2 * count, UINT64_MAX, false);
    if (!outcome) return outcome;
    result_.windows_run = 2 * half;
    const double rest =
        static_cast<double>(problem_.count - 2 * count) / static_cast<double>(count);
    const auto continue_line = [&](Picoseconds& at, Picoseconds before) {
      at += static_cast<Picoseconds>(rest * static_cast<double>(at - before));
    };
    continue_line(outcome->ready, shorter->ready);
    continue_line(outcome->returned, shorter->returned);
    outcome->steps += shorter->steps;
    return outcome;
  }

  const Network& network_;
  const CatalogueEntry& entry_;
  Problem problem_;
  const std::size_t elem_bytes_;
  const SimulateOptions& options_;
  const Theory theory_;
  Simulated result_;
};

}  // namespace

Result<Choice> choose_on(const Network& network, const Problem& problem, std::size_t elem_bytes,
                         Algorithm algorithm) {
  const Chosen chosen =
      choose(problem, elem_bytes, cost_table(network, problem.size),
             {.algorithm = algorithm, .max_lanes = {}, .order = CombineOrder::any});
  if (chosen.choice.algorithm == algorithm) return chosen.choice;
  // "leaders was asked for, but all ranks share one host"
  constexpr std::string_view kBut = ", but ";
  std::string why = chosen.wish;
  if (const auto but = why.find(kBut); but != std::string::npos) why.erase(0, but + kBut.size());
  return fail(ErrorKind::unsupported, "{}", why);
}

Result<Simulated> simulate(const Network& network, const Problem& problem, std::size_t elem_bytes,
                           const Choice& choice, const SimulateOptions& options) {
  const CatalogueEntry* entry = find_algorithm(problem.kind, choice.algorithm);
  if (entry == nullptr || !problem.block_counts.empty())
    return fail(ErrorKind::invalid_argument, "{} has no algorithm {} for {}",
                to_string(problem.kind), to_string(choice.algorithm),
                entry == nullptr ? "blocks of any sizes" : "blocks of different sizes");
  return Simulation(network, *entry, problem, elem_bytes, choice, options).run();
}

}  // namespace ccoll::sim
