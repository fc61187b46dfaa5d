// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The memory that a communicator has of those that are being made from it.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ccoll/communicator.hpp"
#include "comm/groups/group.hpp"
#include "control/control.hpp"

namespace ccoll {

/// A subgroup that this rank is making.
struct Making {
  std::uint64_t id = 0;    ///< of the new communicator
  std::uint64_t list = 0;  ///< a hash of `ranks`
  std::vector<Rank> ranks;
  bool was_broken = false;                           ///< what it is made of, and the caller knows
  std::weak_ptr<Communicator::Implementation> made;  ///< in which it then waits
};

/// The word of a rank in the making of a subgroup, which it tells the others again and again.
struct Announcement {
  Waiting waiting;
  std::vector<std::uint32_t> to;
};

using Ranks = std::vector<Rank>;

/// The ranks that shrink_without() is to do without, ascending; refuses `self`, and what is no
/// rank.
Result<Ranks> excluded_ranks(std::span<const int> ranks, Rank self, Rank size);

/// Roll calls of all ranks, or of all without some, tell themselves apart by this.
struct Shrinks {
  std::uint64_t well = 0;      ///< so many ended well
  std::uint32_t attempts = 0;  ///< since, that did not
};

}  // namespace ccoll
