// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The parts of the catalogue's rows: each algorithm's program and theory. Each is defined in the
/// file of its name (ring's broadcast and reduce in chain.cpp). The programs need two ranks or
/// more: see program_alone. Private to this folder; other code uses catalogue().

#include "algorithms/algorithms.hpp"

namespace ccoll {

using ProgramOf = Program(const Problem& problem, Rank rank);
using TheoryOf = Theory(const Problem& problem);

ProgramOf ring_all_reduce, ring_reduce_scatter, ring_all_gather, ring_broadcast, ring_reduce;
TheoryOf ring_all_reduce_theory, ring_reduce_scatter_theory, ring_all_gather_theory, chain_theory;

ProgramOf tree_all_reduce, tree_broadcast, tree_reduce, double_tree_all_reduce, double_tree_rooted;
TheoryOf tree_theory, double_tree_all_reduce_theory, double_tree_rooted_theory;

ProgramOf recursive_doubling_all_reduce, recursive_doubling_all_gather;
TheoryOf recursive_doubling_all_reduce_theory, recursive_doubling_all_gather_theory;

ProgramOf recursive_halving_all_reduce, recursive_halving_reduce_scatter;
TheoryOf recursive_halving_all_reduce_theory, recursive_halving_reduce_scatter_theory;

ProgramOf bruck_all_gather, bruck_all_to_all;
TheoryOf bruck_all_gather_theory, bruck_all_to_all_theory;

ProgramOf root_collects_all_reduce, root_collects_all_gather, root_collects_reduce_scatter;
TheoryOf root_collects_all_reduce_theory, root_collects_all_gather_theory,
    root_collects_reduce_scatter_theory;

ProgramOf one_shot_all_reduce, one_shot_all_gather, one_shot_reduce_scatter, two_shot_all_reduce,
    pairwise_all_to_all;
TheoryOf one_shot_all_reduce_theory, one_shot_all_gather_theory, one_shot_reduce_scatter_theory,
    two_shot_all_reduce_theory, pairwise_all_to_all_theory;

ProgramOf linear_broadcast, linear_reduce, linear_gather, linear_scatter, binomial_broadcast,
    binomial_reduce, binomial_gather, binomial_scatter;
TheoryOf linear_theory_whole, linear_theory_blocks, binomial_theory_whole, binomial_theory_blocks;

ProgramOf leaders_all_reduce, leaders_broadcast, leaders_reduce, two_level_all_reduce,
    two_level_reduce_scatter, two_level_all_gather, two_level_all_to_all;
TheoryOf leaders_theory, two_level_all_reduce_theory, two_level_exchange_theory;

ProgramOf dissemination_barrier;
TheoryOf dissemination_barrier_theory;

}  // namespace ccoll
