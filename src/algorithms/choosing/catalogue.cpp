// SPDX-License-Identifier: Apache-2.0

/// The one list of all algorithms, and look-ups in it.

#include "algorithms/algorithms.hpp"
#include "algorithms/common.hpp"
#include "algorithms/entries.hpp"
#include "core/result.hpp"

namespace ccoll {

namespace {

// The names of the columns' values.
constexpr bool kOverlap = true, kInTurn = false;  // windows_overlap
constexpr bool kRagged = true, kEven = false;     // ragged
constexpr bool kHosts = true, kFlat = false;      // by_host
constexpr bool kTurns = true, kStays = false;     // rotates

constexpr CatalogueEntry kEntries[] = {
    {Kind::all_reduce, Algorithm::ring, ring_all_reduce, ring_all_reduce_theory, kInTurn, kEven,
     kFlat, kTurns, "Patarasuk and Yuan 2009; NCCL's order of blocks"},
    {Kind::all_reduce, Algorithm::double_tree, double_tree_all_reduce,
     double_tree_all_reduce_theory, kOverlap, kEven, kFlat, kStays,
     "Sanders, Speck and Träff 2009; NCCL's trees"},
    {Kind::all_reduce, Algorithm::tree, tree_all_reduce, tree_theory, kOverlap, kEven, kFlat,
     kStays, "Sanders, Speck and Träff 2009; NCCL's tree"},
    {Kind::all_reduce, Algorithm::recursive_doubling, recursive_doubling_all_reduce,
     recursive_doubling_all_reduce_theory, kInTurn, kEven, kFlat, kStays,
     "Thakur, Rabenseifner and Gropp 2005"},
    {Kind::all_reduce, Algorithm::one_shot, one_shot_all_reduce, one_shot_all_reduce_theory,
     kOverlap, kEven, kFlat, kTurns, "direct exchange; MSCCL++ (arXiv 2504.09014)"},
    {Kind::all_reduce, Algorithm::two_shot, two_shot_all_reduce, two_shot_all_reduce_theory,
     kOverlap, kEven, kFlat, kTurns, "Thakur et al. 2005; MSCCL++ (arXiv 2504.09014)"},
    {Kind::all_reduce, Algorithm::recursive_halving, recursive_halving_all_reduce,
     recursive_halving_all_reduce_theory, kInTurn, kEven, kFlat, kStays, "Rabenseifner 2004"},
    {Kind::all_reduce, Algorithm::root_collects, root_collects_all_reduce,
     root_collects_all_reduce_theory, kOverlap, kEven, kFlat, kStays,
     "folklore: reduce, then broadcast"},
    {Kind::all_reduce, Algorithm::leaders, leaders_all_reduce, leaders_theory, kOverlap, kEven,
     kHosts, kStays, "Karonis et al. 2000"},
    {Kind::all_reduce, Algorithm::two_level, two_level_all_reduce, two_level_all_reduce_theory,
     kOverlap, kEven, kHosts, kTurns, "Cho et al. 2019 (BlueConnect)"},
    {Kind::reduce_scatter, Algorithm::ring, ring_reduce_scatter, ring_reduce_scatter_theory,
     kInTurn, kRagged, kFlat, kTurns, "Patarasuk and Yuan 2009"},
    {Kind::reduce_scatter, Algorithm::one_shot, one_shot_reduce_scatter,
     one_shot_reduce_scatter_theory, kOverlap, kRagged, kFlat, kTurns,
     "direct exchange; MSCCL++ (arXiv 2504.09014)"},
    {Kind::reduce_scatter, Algorithm::recursive_halving, recursive_halving_reduce_scatter,
     recursive_halving_reduce_scatter_theory, kInTurn, kRagged, kFlat, kStays,
     "Thakur, Rabenseifner and Gropp 2005"},
    {Kind::reduce_scatter, Algorithm::root_collects, root_collects_reduce_scatter,
     root_collects_reduce_scatter_theory, kOverlap, kRagged, kFlat, kStays,
     "folklore: reduce, then scatter"},
    {Kind::reduce_scatter, Algorithm::two_level, two_level_reduce_scatter,
     two_level_exchange_theory, kOverlap, kRagged, kHosts, kTurns, "Träff and Rougier 2014"},
    {Kind::all_gather, Algorithm::ring, ring_all_gather, ring_all_gather_theory, kInTurn, kRagged,
     kFlat, kTurns, "Thakur, Rabenseifner and Gropp 2005"},
    {Kind::all_gather, Algorithm::recursive_doubling, recursive_doubling_all_gather,
     recursive_doubling_all_gather_theory, kInTurn, kRagged, kFlat, kStays,
     "Thakur, Rabenseifner and Gropp 2005"},
    {Kind::all_gather, Algorithm::one_shot, one_shot_all_gather, one_shot_all_gather_theory,
     kOverlap, kRagged, kFlat, kTurns, "direct exchange; MSCCL++ (arXiv 2504.09014)"},
    {Kind::all_gather, Algorithm::bruck, bruck_all_gather, bruck_all_gather_theory, kInTurn,
     kRagged, kFlat, kTurns, "Bruck et al. 1997"},
    {Kind::all_gather, Algorithm::root_collects, root_collects_all_gather,
     root_collects_all_gather_theory, kOverlap, kRagged, kFlat, kStays,
     "folklore: gather, then broadcast"},
    {Kind::all_gather, Algorithm::two_level, two_level_all_gather, two_level_exchange_theory,
     kOverlap, kRagged, kHosts, kTurns, "Träff and Rougier 2014"},
    {Kind::broadcast, Algorithm::ring, ring_broadcast, chain_theory, kOverlap, kEven, kFlat, kStays,
     "Pješivac-Grbović et al. 2007"},
    {Kind::broadcast, Algorithm::double_tree, double_tree_rooted, double_tree_rooted_theory,
     kOverlap, kEven, kFlat, kStays, "Sanders, Speck and Träff 2009; NCCL's trees"},
    {Kind::broadcast, Algorithm::tree, tree_broadcast, tree_theory, kOverlap, kEven, kFlat, kStays,
     "Sanders, Speck and Träff 2009; NCCL's tree"},
    {Kind::broadcast, Algorithm::binomial, binomial_broadcast, binomial_theory_whole, kOverlap,
     kEven, kFlat, kStays, "Barnett et al. 1994"},
    {Kind::broadcast, Algorithm::linear, linear_broadcast, linear_theory_whole, kOverlap, kEven,
     kFlat, kStays, "the definition of the operation (MPI standard)"},
    {Kind::broadcast, Algorithm::leaders, leaders_broadcast, leaders_theory, kOverlap, kEven,
     kHosts, kStays, "Karonis et al. 2000"},
    {Kind::reduce, Algorithm::ring, ring_reduce, chain_theory, kOverlap, kEven, kFlat, kStays,
     "Pješivac-Grbović et al. 2007"},
    {Kind::reduce, Algorithm::double_tree, double_tree_rooted, double_tree_rooted_theory, kOverlap,
     kEven, kFlat, kStays, "Sanders, Speck and Träff 2009; NCCL's trees"},
    {Kind::reduce, Algorithm::tree, tree_reduce, tree_theory, kOverlap, kEven, kFlat, kStays,
     "Sanders, Speck and Träff 2009; NCCL's tree"},
    {Kind::reduce, Algorithm::binomial, binomial_reduce, binomial_theory_whole, kOverlap, kEven,
     kFlat, kStays, "Barnett et al. 1994"},
    {Kind::reduce, Algorithm::linear, linear_reduce, linear_theory_whole, kOverlap, kEven, kFlat,
     kStays, "the definition of the operation (MPI standard)"},
    {Kind::reduce, Algorithm::leaders, leaders_reduce, leaders_theory, kOverlap, kEven, kHosts,
     kStays, "Karonis et al. 2000"},
    {Kind::gather, Algorithm::binomial, binomial_gather, binomial_theory_blocks, kOverlap, kEven,
     kFlat, kStays, "Barnett et al. 1994"},
    {Kind::gather, Algorithm::linear, linear_gather, linear_theory_blocks, kOverlap, kRagged, kFlat,
     kStays, "the definition of the operation (MPI standard)"},
    {Kind::scatter, Algorithm::binomial, binomial_scatter, binomial_theory_blocks, kOverlap, kEven,
     kFlat, kStays, "Barnett et al. 1994"},
    {Kind::scatter, Algorithm::linear, linear_scatter, linear_theory_blocks, kOverlap, kRagged,
     kFlat, kStays, "the definition of the operation (MPI standard)"},
    {Kind::all_to_all, Algorithm::pairwise, pairwise_all_to_all, pairwise_all_to_all_theory,
     kOverlap, kRagged, kFlat, kTurns, "Thakur, Rabenseifner and Gropp 2005"},
    {Kind::all_to_all, Algorithm::bruck, bruck_all_to_all, bruck_all_to_all_theory, kInTurn, kEven,
     kFlat, kTurns, "Bruck et al. 1997"},
    {Kind::all_to_all, Algorithm::two_level, two_level_all_to_all, two_level_exchange_theory,
     kOverlap, kEven, kHosts, kTurns, "Träff and Rougier 2014"},
    {Kind::barrier, Algorithm::dissemination, dissemination_barrier, dissemination_barrier_theory,
     kInTurn, kEven, kFlat, kTurns, "Hensgen, Finkel and Manber 1988"},
    {Kind::barrier, Algorithm::leaders, leaders_all_reduce, leaders_theory, kOverlap, kEven, kHosts,
     kStays, "Karonis et al. 2000"},
};

}  // namespace

std::span<const CatalogueEntry> catalogue() { return kEntries; }

const CatalogueEntry* find_algorithm(Kind kind, Algorithm algorithm) {
  for (const CatalogueEntry& entry : catalogue()) {
    if (entry.kind == kind && entry.algorithm == algorithm) return &entry;
  }
  return nullptr;
}

std::vector<Algorithm> algorithms_for(Kind kind, bool ragged) {
  std::vector<Algorithm> algorithms;
  for (const CatalogueEntry& entry : catalogue()) {
    if (entry.kind == kind && (entry.ragged || !ragged)) algorithms.push_back(entry.algorithm);
  }
  return algorithms;
}

std::optional<Algorithm> parse_algorithm(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(Algorithm::two_level); ++i) {
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
  if (problem.size == 1) return striped(program_alone(problem), choice.lanes);
  return striped(entry->make(problem, rank), choice.lanes);
}

}  // namespace ccoll
