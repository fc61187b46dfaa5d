// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Ways of calls that devices make by themselves, with no data going through the host: a team
/// (team.hpp), where all ranks are threads of one process, and a group (stream_group.hpp), where
/// they are of several processes of a host: by the team's kernel, too, where each rank has a GPU of
/// its own, else by stream steps. A rank has one of its communicator's, or none; all ranks the
/// same.
///
/// Without CUDA's headers; in a build without CUDA there is none to be had.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ccoll/types.hpp"
#include "core/result.hpp"
#include "gpu/exchange.hpp"
#include "gpu/program/copies.hpp"
#include "gpu/staging.hpp"
#include "gpu/way.hpp"
#include "schedule/schedule.hpp"

namespace ccoll::device {

/// What a way has made of a schedule; goes with the last that has it.
struct DeviceProgram {
  virtual ~DeviceProgram() = default;
};

/// The same on all ranks.
struct ProgramRequest {
  Problem problem;
  Choice choice;
  Schedule schedule;  ///< verified; called for each rank
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
};

/// load() and passage() as Way says of the latter; abort() by any thread.
class DeviceWay : public Way {
 public:
  /// "team", as CCOLL_DEVICE_WAY has it.
  virtual std::string_view name() const = 0;
  /// May be called while streams are captured. `unsupported` where the way has not what it needs:
  /// then it has not on any rank.
  virtual Result<std::shared_ptr<const DeviceProgram>> load(const ProgramRequest& request) = 0;
  /// Whether a call is in its stream only when all ranks have made it: see StreamOp::enter.
  virtual bool is_entered_together() const = 0;
  /// Lets all streams go on, on all ranks, with what is under way undone and undefined results;
  /// `why` is the outcome of all of it, unless there is a cause already. For good. Does not wait.
  virtual void abort(const Failure& why) = 0;
  /// Whether abort() has ended it, on whichever rank.
  virtual bool is_aborted() const = 0;
  /// Why all of it has ended, on all ranks; nothing as long as it has not. Before any stream goes
  /// on with a call undone it is there. Any thread may call.
  virtual std::optional<Failure> cause() const = 0;
  /// Whether a graph of this rank is in the middle of a call for which it may wait for ever where
  /// another rank is lost.
  virtual bool has_graph_under_way() const = 0;
  /// Of the device's memory.
  virtual std::uint64_t held_bytes() const = 0;
};

/// A name of the GPU that is equal exactly for the same one, whichever process of the host asks.
Result<std::string> identity_of(int device);

struct TeamWayOptions {
  std::uint64_t communicator = 0;  ///< by which the ranks of this process find each other
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  /// By rank, where they have several GPUs; else empty.
  std::vector<int> devices = {};
  /// Of each device, for slots and scratch of its ranks' programs.
  std::uint64_t workspace_bytes = 32 << 20;
  std::uint32_t most_blocks = 0;  ///< of a call; 0: as many as the device runs at once
  CopyUse copies = CopyUse::by_size;
  std::shared_ptr<Staging> staging;  ///< of this rank's calls that the host makes
};

/// Of all `size` ranks, each of which calls it; waits for none of them. What one cannot have none
/// has: where it fails, it fails on all with the same failure. Its kernels are loaded then, and its
/// memory is there.
Result<std::shared_ptr<DeviceWay>> join_team(const TeamWayOptions& options);

/// Teams that no communicator has any more leave their blocks to others (block_budget.hpp), unless
/// something of what they have launched may still run.
void rest_idle_teams();

struct GroupWayOptions {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  /// Of each rank's device, for slots and scratch of its programs; the same on all.
  std::uint64_t workspace_bytes = 32 << 20;
  bool by_kernels = false;           ///< each rank has a GPU of its own; else by steps
  CopyUse copies = CopyUse::never;   ///< of steps; `by_size` is never there
  std::uint32_t most_blocks = 0;     ///< of a rank's kernel; 0: 32, of kernels 16
  std::shared_ptr<Staging> staging;  ///< of this rank's calls that the host makes
};

/// By all ranks together: shares memory, and tries out what is shared. It may fail on some ranks
/// only, who have to agree then.
Result<std::shared_ptr<DeviceWay>> make_group(const GroupWayOptions& options, Exchange& exchange,
                                              Exchange::TimePoint deadline);

}  // namespace ccoll::device
