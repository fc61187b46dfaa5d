// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One function per algorithm and kind, each defined in the file of its name. Private to this
/// folder; everyone else uses catalogue().

#include "algorithms/algorithms.hpp"

namespace ccoll {

CatalogueEntry ring_all_reduce();
CatalogueEntry ring_reduce_scatter();
CatalogueEntry ring_all_gather();
CatalogueEntry ring_broadcast();
CatalogueEntry ring_reduce();
CatalogueEntry one_shot_all_reduce();
CatalogueEntry one_shot_all_gather();
CatalogueEntry one_shot_reduce_scatter();
CatalogueEntry two_shot_all_reduce();
CatalogueEntry pairwise_all_to_all();
CatalogueEntry linear_broadcast();
CatalogueEntry linear_reduce();
CatalogueEntry linear_gather();
CatalogueEntry linear_scatter();
CatalogueEntry dissemination_barrier();
CatalogueEntry tree_all_reduce();
CatalogueEntry tree_broadcast();
CatalogueEntry tree_reduce();
CatalogueEntry double_tree_all_reduce();
CatalogueEntry double_tree_broadcast();
CatalogueEntry double_tree_reduce();
CatalogueEntry recursive_doubling_all_reduce();
CatalogueEntry recursive_doubling_all_gather();
CatalogueEntry binomial_broadcast();
CatalogueEntry binomial_reduce();
CatalogueEntry binomial_gather();
CatalogueEntry binomial_scatter();

Theory binomial_theory_whole(const Problem& problem);
Theory binomial_theory_blocks(const Problem& problem);

}  // namespace ccoll
