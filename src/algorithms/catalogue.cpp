// SPDX-License-Identifier: Apache-2.0

/// The one list of all algorithms, and looking things up in it.

#include <array>

#include "algorithms/algorithms.hpp"
#include "algorithms/entries.hpp"
#include "core/result.hpp"

namespace ccoll {

std::span<const CatalogueEntry> catalogue() {
  static const std::array kEntries = {
      ring_all_reduce(),       double_tree_all_reduce(),
      tree_all_reduce(),       recursive_doubling_all_reduce(),
      one_shot_all_reduce(),   two_shot_all_reduce(),
      ring_reduce_scatter(),   one_shot_reduce_scatter(),
      ring_all_gather(),       recursive_doubling_all_gather(),
      one_shot_all_gather(),   ring_broadcast(),
      double_tree_broadcast(), tree_broadcast(),
      binomial_broadcast(),    linear_broadcast(),
      ring_reduce(),           double_tree_reduce(),
      tree_reduce(),           binomial_reduce(),
      linear_reduce(),         binomial_gather(),
      linear_gather(),         binomial_scatter(),
      linear_scatter(),        pairwise_all_to_all(),
      dissemination_barrier(),
  };
  return kEntries;
}

const CatalogueEntry* find_algorithm(Kind kind, Algorithm algorithm) {
  for (const CatalogueEntry& entry : catalogue()) {
    if (entry.kind == kind && entry.algorithm == algorithm) return &entry;
  }
  return nullptr;
}

std::vector<Algorithm> algorithms_for(Kind kind) {
  std::vector<Algorithm> algorithms;
  for (const CatalogueEntry& entry : catalogue()) {
    if (entry.kind == kind) algorithms.push_back(entry.algorithm);
  }
  return algorithms;
}

std::optional<Algorithm> parse_algorithm(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(Algorithm::dissemination); ++i) {
    if (to_string(static_cast<Algorithm>(i)) == name) return static_cast<Algorithm>(i);
  }
  return std::nullopt;
}

std::optional<Kind> parse_kind(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(Kind::barrier); ++i) {
    if (to_string(static_cast<Kind>(i)) == name) return static_cast<Kind>(i);
  }
  return std::nullopt;
}

Program make_program(const Problem& problem, const Choice& choice, Rank rank) {
  const CatalogueEntry* entry = find_algorithm(problem.kind, choice.algorithm);
  CCOLL_CHECK(entry != nullptr, "{} has no algorithm {}", to_string(problem.kind),
              to_string(choice.algorithm));
  return striped(entry->make(problem, rank), choice.lanes);
}

}  // namespace ccoll
