// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The communicators that are being made from another.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ccoll/communicator.hpp"
#include "comm/progress/owner_flag.hpp"
#include "control/control.hpp"
#include "schedule/problem.hpp"
#include "system/locks.hpp"

namespace ccoll {

using Ranks = std::vector<Rank>;

/// A subgroup that this rank is making.
struct Making {
  std::uint64_t id = 0;    ///< of the new communicator
  std::uint64_t list = 0;  ///< a hash of `ranks`
  Ranks ranks;
  bool was_broken = false;              ///< the parent, and the caller knew
  std::weak_ptr<ControlObserver> made;  ///< ends the new one, in which it waits
};

/// Tells the others of a subgroup that a rank makes, again and again.
struct Announcement {
  Waiting waiting;
  std::vector<std::uint32_t> to;
};

/// Tells roll calls apart, of all ranks or of all without the same ones.
struct Shrinks {
  std::uint64_t well = 0;      ///< that ended well
  std::uint32_t attempts = 0;  ///< failed ones since then
};

/// The ranks that shrink_without() is to do without, ascending; refuses `self`, and numbers that
/// are no rank.
Result<Ranks> excluded_ranks(std::span<const int> ranks, Rank self, Rank size);

/// Ids for the communicators that are made from one, so that all ranks make up the same; and the
/// subgroup and the shrink that this rank is making, at most one of each. Any thread may use what
/// does not take an Owned.
class Births {
 public:
  explicit Births(std::uint64_t parent);

  /// The number of the next duplicate or split, from 1 on.
  std::uint64_t next_child(Owned /*owned*/) { return ++children_; }
  /// Sent while this communicator waits, as a new subgroup, for all of its ranks.
  std::optional<Announcement>& announcement(Owned /*owned*/) { return announcement_; }
  const std::optional<Announcement>& announcement(Owned /*owned*/) const { return announcement_; }

  std::uint64_t duplicate_id(std::uint64_t number) const;
  std::uint64_t split_id(std::uint64_t number, int color) const;
  /// `list` is a hash of its ranks, and `times` says how often that list was made before.
  std::uint64_t subgroup_id(std::uint64_t list, std::uint64_t times) const;
  /// `number` is that of the roll call, and `list` a hash of the ranks that are left.
  std::uint64_t shrink_id(std::uint64_t number, std::uint64_t list) const;

  struct Attempt {
    std::uint64_t id = 0;
    std::uint64_t times = 0;  ///< as in subgroup_id()
  };
  /// Fails if another thread is making a subgroup. `was_broken`: the caller knows that the parent
  /// is broken.
  Result<Attempt> begin_subgroup(const Ranks& ranks, bool was_broken);
  /// `counts`: the next attempt with the same list gets another id.
  void end_subgroup(bool counts) noexcept;
  /// The new communicator exists, and waits for the others. `made` gets its news.
  void wait_in(const std::shared_ptr<ControlObserver>& made);
  /// Ends the making of a subgroup with the parent, although it waits in the new communicator.
  void end_making(const Failure& failure) const;
  /// The same for one whose caller did not know that the parent is broken. Ranks that know may go
  /// on from it; one that does not know yet may wait for ranks that know, and do not come.
  void end_unwarned_making(const Failure& failure) const;
  /// Calls `tell` with this rank's making and the id of the peer's, if `peer` announces a subgroup
  /// that will never be made: it waits for this rank, which waits for it with another list.
  template <typename Tell>
  void compare(Rank peer, const Waiting& announced, Tell tell) const {
    shared_.with([&](const Shared& shared) {
      const auto theirs = contradiction(shared, peer, announced);
      if (theirs) tell(*shared.making, *theirs);
    });
  }

  /// Fails if another thread shrinks the communicator. The roll call's number and attempt are among
  /// those without the same ranks.
  Result<Shrinks> begin_shrink(const Ranks& excluded);
  void end_shrink(const Ranks& excluded, bool well) noexcept;
  /// The roll call's outcome will be there, unless the communicator is destroyed first.
  void await(std::shared_ptr<Headcount> count);
  /// Ends that wait.
  void abort_shrink(const Failure& why);

  /// In a forked child, where the thread that held the lock may be gone.
  void forget_lock() { shared_.forget_lock(); }

 private:
  struct Shared {
    std::optional<Making> making;
    std::map<std::uint64_t, std::uint64_t> made;  ///< times, by list
    std::map<Ranks, Shrinks> shrinks;             ///< by excluded ranks
    bool is_shrinking = false;
    std::shared_ptr<Headcount> headcount;  ///< of the shrink under way
  };
  template <typename Concerns>
  void end(const Failure& failure, Concerns concerns) const;
  std::optional<std::uint64_t> contradiction(const Shared& shared, Rank peer,
                                             const Waiting& announced) const;

  const std::uint64_t parent_;
  std::uint64_t children_ = 0;
  std::optional<Announcement> announcement_;
  Guarded<Shared> shared_;
};

}  // namespace ccoll
