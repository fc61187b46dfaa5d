// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The kinds of links between a communicator's ranks.

#include <set>
#include <string>
#include <string_view>

#include "ccoll/communicator.hpp"

namespace ccoll::bench {

/// The transports of this rank's slices to the others.
std::set<std::string> transports_from(const Communicator& communicator);

/// The facts that the cost model needs about links that are all alike.
struct LinkKind {
  std::string transport;
  bool one_host;
  double cores_per_rank;
};
/// The kind of the links between all ranks. Collective; throws Error{invalid_argument} on every
/// rank if they differ, in the name of `command`.
LinkKind kind_of_links(Communicator& communicator, std::string_view command);

}  // namespace ccoll::bench
