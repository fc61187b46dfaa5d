// SPDX-License-Identifier: Apache-2.0
// Communicators that are made from others: parts of them, survivors, and larger ones.
#include <algorithm>
#include <vector>

#include "faces/nccl/group.hpp"
#include "faces/nccl/handle.hpp"
#include "faces/nccl/settings/environment.hpp"
#include "faces/nccl/start.hpp"

namespace ccoll::nccl {
namespace {

/// Makes a part from its parent's communicator; returns nothing if this rank is in none.
using MakePart = std::function<std::optional<Communicator>(Communicator&, const GroupOptions&)>;

GroupOptions options_of(const Config& config) { return {.name = config.comm_name, .timeout = {}}; }

/// A part of a revoked communicator is made of the ranks that are left. They are all ranks: each
/// rank of the parent calls, as for a split.
MakePart of_whole(const std::shared_ptr<Comm>& parent, const MakePart& make_part) {
  return [parent, make_part](Communicator& communicator, const GroupOptions& options) {
    if (parent->state() != Comm::State::revoked) return make_part(communicator, options);
    auto whole = communicator.shrink();
    return make_part(whole, options);
  };
}

/// Makes a part of `parent` now, in a thread, or at the group's end, and then hands it out.
ncclResult_t derive(const char* function, const std::shared_ptr<Comm>& parent, ncclComm_t* out,
                    const Config& config, const MakePart& make_part) {
  const auto run = [=] {
    const Comm::UnderWay under_way(*parent);
    try {
      auto part = make_part(parent->communicator(), options_of(config));
      if (!part) return;
      *out = new_handle(std::make_shared<Comm>(std::move(*part), parent->device(), config));
    } catch (...) {
      throw parent->failed_call(function);
    }
  };
  Job job{.function = function, .comm = parent, .run = run, .meanwhile = ncclSuccess};
  return submit(std::move(job));
}

/// Both are in order, with each rank once.
struct Ranks {
  std::vector<int> left, excluded;
};

Ranks ranks_of(const Comm& parent, const int* excluded, int count) {
  if (excluded == nullptr) refuse(ncclInvalidArgument, "excludeRanksList is NULL");
  if (count < 1) refuse(ncclInvalidArgument, "excludeRanksCount is {}: expected 1 or more", count);
  std::vector<bool> is_left(static_cast<std::size_t>(parent.size()), true);
  for (int i = 0; i < count; i++) {
    const int rank = excluded[i];
    if (rank < 0 || rank >= parent.size())
      refuse(ncclInvalidArgument, "excludeRanksList has rank {}: expected 0 to {}", rank,
             parent.size() - 1);
    if (rank == parent.rank())
      refuse(ncclInvalidArgument,
             "excludeRanksList has this rank, {}: only those that are left call ncclCommShrink",
             rank);
    is_left[static_cast<std::size_t>(rank)] = false;
  }
  Ranks ranks;
  for (int rank = 0; rank < parent.size(); rank++)
    (is_left[static_cast<std::size_t>(rank)] ? ranks.left : ranks.excluded).push_back(rank);
  return ranks;
}

/// The id from the rank that has one.
ncclUniqueId shared_id(Communicator& communicator, const std::optional<ncclUniqueId>& own) {
  const auto mine = own ? std::string_view(own->internal, sizeof own->internal) : "";
  for (const auto& each : communicator.all_gather_bytes(mine)) {
    if (each.size() != sizeof(ncclUniqueId)) continue;
    ncclUniqueId id;
    std::ranges::copy(each, id.internal);
    return id;
  }
  refuse(ncclInvalidArgument,
         "no rank has given an id: one of the old ranks must make it by ncclCommGetUniqueId");
}

/// Called by a rank that is there already.
ncclResult_t grow_old(const char* function, const std::shared_ptr<Comm>& parent, int size,
                      const ncclUniqueId* given_id, int rank, ncclComm_t* out, const void* config) {
  parent->check_parent(false);
  if (rank != -1)
    refuse(ncclInvalidArgument, "rank is {}: expected -1, because comm is given and keeps its rank",
           rank);
  if (size <= parent->size())
    refuse(ncclInvalidArgument, "nRanks is {}: expected more than the present {}", size,
           parent->size());
  const auto own = given_id == nullptr ? std::nullopt : std::optional(*given_id);
  const auto inherits = inherited(read_config(config), parent->config());
  const auto run = [=] {
    const Comm::UnderWay under_way(*parent);
    try {
      ncclUniqueId id;
      if (parent->state() == Comm::State::revoked) {
        auto whole = parent->communicator().shrink();
        id = shared_id(whole, own);
      } else {
        id = shared_id(parent->communicator(), own);
      }
      const auto child =
          std::make_shared<Comm>(Comm::Place{parent->rank(), size, parent->device()}, inherits);
      start(child, meeting_of(id), parent);
      *out = new_handle(child);
    } catch (...) {
      throw parent->failed_call(function);
    }
  };
  return submit({.function = function, .comm = parent, .run = run});
}

/// Called by a rank that is new.
ncclResult_t grow_new(const char* function, int size, const ncclUniqueId* id, int rank,
                      ncclComm_t* out, const void* config) {
  given(id, "uniqueId, where comm is NULL");
  if (rank < 0 || rank >= size)
    refuse(ncclInvalidArgument, "rank {} of {}: expected 0 to {}", rank, size, size - 1);
  const auto child =
      std::make_shared<Comm>(Comm::Place{rank, size, device_of_thread()}, read_config(config));
  const auto handle = new_handle(child);
  *out = handle;
  const auto undo = [out, handle] {
    *out = nullptr;
    taken(handle);
  };
  return submit({.function = function,
                 .comm = child,
                 .run = [child, at = meeting_of(*id)] { start(child, at, child); },
                 .undo = undo});
}

}  // namespace
}  // namespace ccoll::nccl

using namespace ccoll::nccl;

CCOLL_NCCL_FACE(ncclResult_t, CommSplit, ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                ncclConfig_t* config) {
  constexpr auto kFunction = "ncclCommSplit";
  return guarded_in_group(kFunction, [&] {
    const auto parent = comm_of(comm);
    given(newcomm, "newcomm") = nullptr;
    parent->check_parent(false);
    if (color < NCCL_SPLIT_NOCOLOR)
      refuse(ncclInvalidArgument, "color is {}: expected 0 or more, or NCCL_SPLIT_NOCOLOR (-1)",
             color);
    const auto inherits = inherited(read_config(config), parent->config());
    const auto split = [color, key](ccoll::Communicator& whole,
                                    const ccoll::GroupOptions& options) {
      return whole.split(color == NCCL_SPLIT_NOCOLOR ? ccoll::kNoColor : color, key, options);
    };
    return derive(kFunction, parent, newcomm, inherits, of_whole(parent, split));
  });
}

CCOLL_NCCL_FACE(ncclResult_t, CommShrink, ncclComm_t comm, int* excludeRanksList,
                int excludeRanksCount, ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags) {
  constexpr auto kFunction = "ncclCommShrink";
  return guarded_in_group(kFunction, [&] {
    const auto parent = comm_of(comm);
    given(newcomm, "newcomm") = nullptr;
    if (shrinkFlags != NCCL_SHRINK_DEFAULT && shrinkFlags != NCCL_SHRINK_ABORT)
      refuse(ncclInvalidArgument, "shrinkFlags is {}: expected 0 (default) or 1 (abort)",
             shrinkFlags);
    const auto ranks = ranks_of(*parent, excludeRanksList, excludeRanksCount);
    parent->check_parent(shrinkFlags == NCCL_SHRINK_ABORT);
    const auto inherits = inherited(read_config(config), parent->config());
    if (shrinkFlags == NCCL_SHRINK_ABORT && parent->state() != Comm::State::revoked)
      parent->revoke();
    const auto make_part = [parent, ranks](ccoll::Communicator& communicator,
                                           const ccoll::GroupOptions& options) {
      return std::optional(parent->state() == Comm::State::revoked
                               ? communicator.shrink_without(ranks.excluded, options)
                               : communicator.subgroup(ranks.left, options));
    };
    return derive(kFunction, parent, newcomm, inherits, make_part);
  });
}

CCOLL_NCCL_FACE(ncclResult_t, CommGrow, ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId,
                int rank, ncclComm_t* newcomm, ncclConfig_t* config) {
  constexpr auto kFunction = "ncclCommGrow";
  return guarded_in_group(kFunction, [&] {
    const auto parent = comm == nullptr ? nullptr : comm_of(comm);
    given(newcomm, "newcomm") = nullptr;
    check_environment();
    if (parent == nullptr) return grow_new(kFunction, nRanks, uniqueId, rank, newcomm, config);
    return grow_old(kFunction, parent, nRanks, uniqueId, rank, newcomm, config);
  });
}
