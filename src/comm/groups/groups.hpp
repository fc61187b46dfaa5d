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
#include "comm/groups/survivors.hpp"
#include "control/control.hpp"
#include "core/result.hpp"

namespace ccoll {

class Groups {
 public:
  using Implementation = Communicator::Implementation;
  using Made = Result<std::shared_ptr<Implementation>>;

  Groups(Implementation& parent, Births& births, Survivors& survivors)
      : communicator_(parent), births_(births), survivors_(survivors) {}

  Made duplicate(const GroupOptions& options);
  /// Null for a rank without a colour.
  Made split(int color, int key, const GroupOptions& options);
  Made subgroup(std::span<const int> ranks, const GroupOptions& options);
  /// Makes one of the ranks that are left, as they agree; also from a broken communicator. It
  /// leaves out the `excluded` (ascending), whether they are left or not.
  Made shrink(const GroupOptions& options, Ranks excluded = {});

 private:
  Result<std::vector<Rank>> subgroup_ranks(std::span<const int> ranks) const;
  Made make_child(std::uint64_t id, const std::vector<Rank>& ranks, const GroupOptions& options,
                  std::string made_up_name);
  /// Makes one with `make_it`. If that fails or throws, it tells the others, which have theirs and
  /// would wait for this rank.
  template <typename Make>
  Made made_or_told(std::uint64_t id, Make make_it);
  /// For a new subgroup: waits for all of its ranks.
  Status meet(Announcement announcement);

  Implementation& communicator_;
  Births& births_;
  Survivors& survivors_;
};

}  // namespace ccoll
