// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which kind of links the ranks of a communicator have.

#include <set>
#include <string>
#include <string_view>

#include "ccoll/communicator.hpp"

namespace ccoll::bench {

/// What this rank's slices travel by to the others.
std::set<std::string> transports_from(const Communicator& communicator);

/// Of links that are all alike; what the cost model asks of them.
struct LinkKind {
  std::string transport;
  bool one_host;
  double cores_per_rank;
};
/// Of the links between any two ranks. Collective; throws Error{invalid_argument} on every rank
/// where they differ, in the name of `command`.
LinkKind kind_of_links(Communicator& communicator, std::string_view command);

}  // namespace ccoll::bench
