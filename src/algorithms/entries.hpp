// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the catalogue's rows are made of: each algorithm's program and theory, defined in the file
/// of its name (ring's broadcast and reduce in chain.cpp). Programs are those of two ranks or more:
/// see program_alone. Private to this folder; everyone else uses catalogue().

#include "algorithms/algorithms.hpp"

namespace ccoll {

Program ring_all_reduce(const Problem& problem, Rank rank);
Theory ring_all_reduce_theory(const Problem& problem);
Program ring_reduce_scatter(const Problem& problem, Rank rank);
Theory ring_reduce_scatter_theory(const Problem& problem);
Program ring_all_gather(const Problem& problem, Rank rank);
Theory ring_all_gather_theory(const Problem& problem);
Program ring_broadcast(const Problem& problem, Rank rank);
Program ring_reduce(const Problem& problem, Rank rank);
Theory chain_theory(const Problem& problem);

Program tree_all_reduce(const Problem& problem, Rank rank);
Program tree_broadcast(const Problem& problem, Rank rank);
Program tree_reduce(const Problem& problem, Rank rank);
Theory tree_theory(const Problem& problem);
Program double_tree_all_reduce(const Problem& problem, Rank rank);
Theory double_tree_all_reduce_theory(const Problem& problem);
Program double_tree_rooted(const Problem& problem, Rank rank);
Theory double_tree_rooted_theory(const Problem& problem);

Program recursive_doubling_all_reduce(const Problem& problem, Rank rank);
Theory recursive_doubling_all_reduce_theory(const Problem& problem);
Program recursive_doubling_all_gather(const Problem& problem, Rank rank);
Theory recursive_doubling_all_gather_theory(const Problem& problem);

Program recursive_halving_all_reduce(const Problem& problem, Rank rank);
Theory recursive_halving_all_reduce_theory(const Problem& problem);
Program recursive_halving_reduce_scatter(const Problem& problem, Rank rank);
Theory recursive_halving_reduce_scatter_theory(const Problem& problem);

Program bruck_all_gather(const Problem& problem, Rank rank);
Theory bruck_all_gather_theory(const Problem& problem);
Program bruck_all_to_all(const Problem& problem, Rank rank);
Theory bruck_all_to_all_theory(const Problem& problem);

Program root_collects_all_reduce(const Problem& problem, Rank rank);
Theory root_collects_all_reduce_theory(const Problem& problem);
Program root_collects_all_gather(const Problem& problem, Rank rank);
Theory root_collects_all_gather_theory(const Problem& problem);
Program root_collects_reduce_scatter(const Problem& problem, Rank rank);
Theory root_collects_reduce_scatter_theory(const Problem& problem);

Program one_shot_all_reduce(const Problem& problem, Rank rank);
Theory one_shot_all_reduce_theory(const Problem& problem);
Program one_shot_all_gather(const Problem& problem, Rank rank);
Theory one_shot_all_gather_theory(const Problem& problem);
Program one_shot_reduce_scatter(const Problem& problem, Rank rank);
Theory one_shot_reduce_scatter_theory(const Problem& problem);
Program two_shot_all_reduce(const Problem& problem, Rank rank);
Theory two_shot_all_reduce_theory(const Problem& problem);
Program pairwise_all_to_all(const Problem& problem, Rank rank);
Theory pairwise_all_to_all_theory(const Problem& problem);

Program linear_broadcast(const Problem& problem, Rank rank);
Program linear_reduce(const Problem& problem, Rank rank);
Theory linear_theory_whole(const Problem& problem);
Program linear_gather(const Problem& problem, Rank rank);
Program linear_scatter(const Problem& problem, Rank rank);
Theory linear_theory_blocks(const Problem& problem);
Program binomial_broadcast(const Problem& problem, Rank rank);
Program binomial_reduce(const Problem& problem, Rank rank);
Theory binomial_theory_whole(const Problem& problem);
Program binomial_gather(const Problem& problem, Rank rank);
Program binomial_scatter(const Problem& problem, Rank rank);
Theory binomial_theory_blocks(const Problem& problem);

Program dissemination_barrier(const Problem& problem, Rank rank);
Theory dissemination_barrier_theory(const Problem& problem);

}  // namespace ccoll
