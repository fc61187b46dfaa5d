// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's part for the communicators that are made from it: copies, parts, subgroups and
/// what is left after losses. It makes up their ids, meets their other ranks, and tells those if
/// this rank fails. Each call that makes one takes the owner flag for moments only: making waits
/// for other ranks, which may wait for calls of this communicator.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ccoll/communicator.hpp"
#include "comm/groups/births.hpp"
#include "control/control.hpp"
#include "core/result.hpp"

namespace ccoll {

class Groups {
 public:
  using Implementation = Communicator::Implementation;
  using Made = Result<std::shared_ptr<Implementation>>;

  Groups(Implementation& parent, std::uint64_t id) : communicator_(parent), births_(id) {}

  Made duplicate(const GroupOptions& options);
  /// Null for a rank without a colour.
  Made split(int color, int key, const GroupOptions& options);
  Made subgroup(std::span<const int> ranks, const GroupOptions& options);
  /// Makes one of the ranks that are left, as they agree; also from a broken communicator. It
  /// leaves out the `excluded` (ascending), whether they are left or not.
  Made shrink(const GroupOptions& options, Ranks excluded = {});

  /// Ends the making of a subgroup with this communicator, although it waits in the new one, and
  /// that of a shrunk one.
  void parent_closed(const Failure& failure);
  /// The same for a subgroup whose caller did not know that this communicator is broken.
  void parent_broke(const Failure& failure);
  /// Tells the others if the subgroup that `peer` announces will never be made.
  void compare(Rank peer, const Waiting& waiting);
  /// Sent while this communicator waits, as a new subgroup, for all of its ranks.
  const std::optional<Announcement>& announcement() { return births_.announcement(); }
  void forget_lock() { births_.forget_lock(); }

 private:
  Result<std::vector<Rank>> subgroup_ranks(std::span<const int> ranks) const;
  Made make_child(std::uint64_t id, const std::vector<Rank>& ranks, const GroupOptions& options,
                  std::string made_up_name);
  /// Makes one with `make_it`. If that fails or throws, it tells the others, which have theirs and
  /// would wait for this rank.
  template <typename Make>
  Made made_or_told(std::uint64_t id, Make make_it);
  void end_making(const Failure& failure);
  /// For a new subgroup: waits for all of its ranks.
  Status meet(Announcement announcement);

  // shrink.cpp
  /// Admits a thread to shrink, one at a time; births_.end_shrink() ends it.
  Result<RollCall> begin_shrinking(const Ranks& excluded);
  /// The ranks that are not gone; every rank gets the same list.
  Result<std::vector<Rank>> survivors(const RollCall& call, std::chrono::milliseconds timeout);
  /// The same, but an exception ends the attempt on the other ranks, too: they wait for this one.
  Result<std::vector<Rank>> survivors_or_told(const RollCall& call,
                                              std::chrono::milliseconds timeout);
  /// Waits until the roll call is over; an error says why this rank stopped waiting.
  Status await(const RollCall& call, Headcount& count, std::chrono::milliseconds timeout) const;
  /// The failure for the exception that is being caught.
  Failure cannot_shrink() const;
  Failure lost_patience(const RollCall& call, std::chrono::milliseconds timeout,
                        const std::vector<std::uint32_t>& awaited) const;

  Implementation& communicator_;
  Births births_;
};

}  // namespace ccoll
