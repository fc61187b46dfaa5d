// SPDX-License-Identifier: Apache-2.0
#pragma once

/// State of the communicators that are being made from another.

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
  bool was_broken = false;                           ///< the parent, and the caller knew
  std::weak_ptr<Communicator::Implementation> made;  ///< the new one, in which it waits
};

/// Tells the others of a subgroup that a rank makes, again and again.
struct Announcement {
  Waiting waiting;
  std::vector<std::uint32_t> to;
};

using Ranks = std::vector<Rank>;

/// The ranks that shrink_without() is to do without, ascending; refuses `self`, and numbers that
/// are no rank.
Result<Ranks> excluded_ranks(std::span<const int> ranks, Rank self, Rank size);

/// Tells roll calls apart, of all ranks or of all without the same ones.
struct Shrinks {
  std::uint64_t well = 0;      ///< that ended well
  std::uint32_t attempts = 0;  ///< failed ones since then
};

}  // namespace ccoll
