// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator's part for the communicators that are made from it: copies, parts, subgroups and
/// what is left after losses. It makes up their ids, meets their other ranks, and tells those if
/// this rank fails. Each call that makes one takes the owner flag for moments only: making waits
/// for other ranks, which may wait for calls of this communicator.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ccoll/communicator.hpp"
#include "comm/collectives/collective_calls.hpp"
#include "comm/failures/failures.hpp"
#include "comm/failures/verdict.hpp"
#include "comm/groups/births.hpp"
#include "comm/groups/exchange.hpp"
#include "comm/groups/group.hpp"
#include "comm/groups/member.hpp"
#include "comm/groups/self.hpp"
#include "comm/groups/survivors.hpp"
#include "comm/progress/progress.hpp"
#include "control/control.hpp"
#include "core/result.hpp"

namespace ccoll {

class Groups;

/// A communicator that was made from another, and the parts of it that its maker uses.
struct Child {
  std::shared_ptr<Session> communicator;  ///< has the parts
  const Self& self;
  const Verdict& verdict;
  ControlObserver& news;
  Groups& groups;
};

class Groups {
 public:
  /// The parts that communicators are made with.
  struct With {
    const Self& self;
    Progress& progress;
    Failures& failures;
    CollectiveCalls& calls;
    Exchange& exchange;
    Births& births;
    Survivors& survivors;
    /// Makes this rank's communicator of that id and those ranks.
    std::function<Result<Child>(std::uint64_t id, const CommunicatorOptions& options, Group group)>
        make;
  };
  explicit Groups(With with) : with_(std::move(with)) {}

  Result<Child> duplicate(const GroupOptions& options);
  /// Nothing for a rank without a colour.
  Result<std::optional<Child>> split(int color, int key, const GroupOptions& options);
  Result<Child> subgroup(std::span<const int> ranks, const GroupOptions& options);
  /// Makes one of the ranks that are left, as they agree; also from a broken communicator. It
  /// leaves out the `excluded` (ascending), whether they are left or not.
  Result<Child> shrink(const GroupOptions& options, Ranks excluded = {});

 private:
  Result<std::vector<Rank>> subgroup_ranks(std::span<const int> ranks) const;
  Result<Child> make_child(std::uint64_t id, const std::vector<Rank>& ranks,
                           const GroupOptions& options, std::string made_up_name);
  /// Makes one with `make_it`. If that fails or throws, it tells the others, which have theirs and
  /// would wait for this rank.
  template <typename Make>
  Result<Child> made_or_told(std::uint64_t id, Make make_it);
  /// For a new subgroup: waits for all of its ranks.
  Status meet(Announcement announcement);

  const With with_;
};

}  // namespace ccoll
