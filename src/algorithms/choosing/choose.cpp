// SPDX-License-Identifier: Apache-2.0

/// Chooses an algorithm: the cost model tunes and times every candidate, and the fastest wins.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "algorithms/algorithms.hpp"
#include "algorithms/choosing/cost.hpp"
#include "core/float_state.hpp"
#include "core/result.hpp"

namespace ccoll {
namespace {

/// The model cannot distinguish times that differ by less than this factor.
constexpr double kAlike = 1.02;

/// Room for the algorithms of any one kind. An allocation of 1 KiB or more makes the C library's
/// allocator tidy up first, which would take a tenth of the first call's instructions.
constexpr std::size_t kMostOfAKind = 12;

struct Scored {
  Candidate candidate;
  Choice choice;
  std::uint64_t messages;  ///< of the busiest rank, in one window
  bool piles_up;           ///< several windows under way, of data that must be combined
};

bool applies(const CatalogueEntry& entry, const Problem& problem) {
  return entry.kind == problem.kind && (entry.ragged || problem.block_counts.empty()) &&
         (!entry.by_host || !problem.host_of.empty());
}

std::vector<Scored> score_all(const Problem& problem, std::size_t elem_bytes,
                              const CostTable& costs, const Forced& forced) {
  const std::uint16_t max_lanes =
      std::max<std::uint16_t>(1, forced.max_lanes.value_or(std::max(kMostLanes, costs.rails)));
  const Problem shared = as_all_see_it(problem, elem_bytes);
  std::vector<Scored> scored;
  scored.reserve(kMostOfAKind);
  for (const CatalogueEntry& entry : catalogue()) {
    if (!applies(entry, problem)) continue;
    if (!keeps_order(shared, entry.algorithm, forced.order)) continue;
    const auto tuned = tune(entry, shared, elem_bytes, costs, max_lanes);
    if (!tuned) continue;
    scored.push_back({{entry.algorithm, tuned->predicted_ns, tuned->roundings},
                      tuned->choice,
                      tuned->messages,
                      reduces(entry.kind) && entry.windows_overlap});
  }
  const auto time_of = [](const Scored& one) { return one.candidate.predicted_ns; };
  std::ranges::stable_sort(scored, {}, time_of);
  if (scored.empty()) return scored;
  // Among those about as fast as the fastest, prefer the fewest messages: each has costs that no
  // model knows. If data are combined, then prefer one window at a time: it has fewer slots under
  // way, and reads them from a nearer cache.
  const double limit = time_of(scored.front()) * kAlike;
  const auto slower = std::ranges::upper_bound(scored, limit, {}, time_of);
  const auto best = std::ranges::min_element(scored.begin(), slower, {}, [](const Scored& one) {
    return std::pair(one.messages, one.piles_up);
  });
  std::rotate(scored.begin(), best, std::next(best));
  return scored;
}

std::string reason_by_model(const std::vector<Candidate>& candidates) {
  const std::string_view best = to_string(candidates.front().algorithm);
  if (candidates.size() == 1) return fmt::format("{} is the only one that applies", best);
  const double own = candidates[0].predicted_ns, next = candidates[1].predicted_ns;
  const auto own_text = fmt::format("{:.1f} µs", own / 1e3);
  const auto next_text = fmt::format("{:.1f} µs", next / 1e3);
  const std::string_view other = to_string(candidates[1].algorithm);
  if (own_text == next_text)
    return fmt::format("{} is predicted to take {}, as is {}", best, own_text, other);
  if (own > next)
    return fmt::format(
        "{} is predicted to take {}, little more than {} ({}), and sends no more "
        "messages",
        best, own_text, other, next_text);
  return fmt::format("{} is predicted to be fastest, {} against {} of {}", best, own_text,
                     next_text, other);
}

std::string why_not(Algorithm algorithm, const Problem& problem, CombineOrder order) {
  const CatalogueEntry* entry = find_algorithm(problem.kind, algorithm);
  if (entry == nullptr) return fmt::format("{} has none", to_string(problem.kind));
  if (!keeps_order(problem, algorithm, order))
    return order == CombineOrder::at_once ? "it does not combine everything in one step"
                                          : "it does not combine in rank order";
  if (entry->by_host && problem.host_of.empty())
    return "all ranks share one host, or none shares one with another";
  return applies(*entry, problem) ? "its messages do not fit a slot" : "it needs equal blocks";
}

}  // namespace

Problem as_all_see_it(Problem problem, std::size_t elem_bytes) {
  constexpr std::size_t kPresumedBytes = 64 << 10;
  if (sizes_are_private(problem)) {
    problem.block_counts.clear();
    problem.output_counts.clear();
    problem.count = kPresumedBytes / elem_bytes;
  }
  return problem;
}

Chosen choose(const Problem& problem, std::size_t elem_bytes, const CostTable& costs,
              const Forced& forced) {
  const DefaultFloatState state;  // ranks whose threads round differently choose alike
  const std::vector<Scored> scored = score_all(problem, elem_bytes, costs, forced);
  CCOLL_CHECK(!scored.empty(),
              "{} of {}-byte elements has no algorithm within {} bytes per message",
              to_string(problem.kind), elem_bytes, costs.slot_bytes);
  Chosen chosen{.choice = scored.front().choice, .candidates = {}};
  chosen.candidates.reserve(scored.size());
  for (const Scored& one : scored) chosen.candidates.push_back(one.candidate);
  if (!forced.algorithm) return chosen;

  const std::string_view name = to_string(*forced.algorithm);
  for (const Scored& one : scored) {
    if (one.candidate.algorithm == *forced.algorithm) {
      chosen.choice = one.choice;
      chosen.wish = fmt::format("{} was asked for", name);
      chosen.is_wish_met = true;
      return chosen;
    }
  }
  chosen.wish = fmt::format("{} was asked for, but {}", name,
                            why_not(*forced.algorithm, problem, forced.order));
  return chosen;
}

std::string Chosen::reason() const {
  if (is_wish_met) return wish;
  const auto by_model = reason_by_model(candidates);
  return wish.empty() ? by_model : fmt::format("{}; {}", wish, by_model);
}

}  // namespace ccoll
