// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Ways of calls that devices make by themselves: no data goes through the host. All ranks of a
/// team (team.hpp) are threads of one process. Those of a group (stream_group.hpp) are several
/// processes of one host: they run the team's kernel if each rank has its own GPU, else stream
/// steps. Each rank has at most one way of its communicator, and all ranks have the same.
///
/// Needs no CUDA headers. A build without CUDA has no such way.

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

/// A schedule as a way has loaded it; freed with its last reference.
struct DeviceProgram {
  virtual ~DeviceProgram() = default;
};

/// Every rank must pass the same.
struct ProgramRequest {
  Problem problem;
  Choice choice;
  Schedule schedule;  ///< verified; called once for each rank
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
};

/// load() and stream_op() have the thread rules of Way; any thread may call abort().
class DeviceWay : public Way {
 public:
  /// For example "team": the name that CCOLL_DEVICE_WAY takes.
  virtual std::string_view name() const = 0;
  /// May be called during a capture. `unsupported` if the way lacks something that the program
  /// needs, on all ranks alike.
  virtual Result<std::shared_ptr<const DeviceProgram>> load(const ProgramRequest& request) = 0;
  /// Whether a call enters its stream only when all ranks have made it: see StreamOp::enter.
  virtual bool is_entered_together() const = 0;
  /// Releases all streams on all ranks, for good: calls in flight stay incomplete, with undefined
  /// results. `why` becomes the outcome of all, unless there is a cause already. Never blocks.
  virtual void abort(const Failure& why) = 0;
  /// Whether abort() has ended it, on any rank.
  virtual bool is_aborted() const = 0;
  /// Why all calls have ended, on all ranks; empty until they have. It is set before any stream
  /// passes an incomplete call. Any thread may call.
  virtual std::optional<Failure> cause() const = 0;
  /// Whether a graph of this rank is inside a call and may wait for ever if another rank is lost.
  virtual bool has_graph_under_way() const = 0;
  /// Device memory, in bytes.
  virtual std::uint64_t held_bytes() const = 0;
};

/// A name of the GPU: equal in all processes of the host exactly if the GPU is the same.
Result<std::string> identity_of(int device);

struct TeamWayOptions {
  std::uint64_t communicator = 0;  ///< by which the ranks of this process find each other
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  /// By rank, where they have several GPUs; else empty.
  std::vector<int> devices = {};
  /// Per device, for slots and scratch of its ranks' programs.
  std::uint64_t workspace_bytes = 32 << 20;
  std::uint32_t most_blocks = 0;  ///< per call; 0: as many as the device runs at once
  CopyUse copies = CopyUse::by_size;
  std::shared_ptr<Staging> staging;  ///< for this rank's calls that the host makes
};

/// Each of the `size` ranks calls it, and it waits for no other rank. A failure is the same on all
/// ranks: no rank has a team that another lacks. Loads the kernels and allocates the memory.
Result<std::shared_ptr<DeviceWay>> join_team(const TeamWayOptions& options);

/// Teams that no communicator uses leave their blocks to others (block_budget.hpp), unless work
/// that they have launched may still run.
void rest_idle_teams();

struct GroupWayOptions {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  /// On each rank's device, for slots and scratch of its programs; the same on all ranks.
  std::uint64_t workspace_bytes = 32 << 20;
  bool by_kernels = false;           ///< each rank has its own GPU; else by stream steps
  CopyUse copies = CopyUse::never;   ///< for steps; never `by_size`
  std::uint32_t most_blocks = 0;     ///< of a rank's kernel; 0: 32 by steps, 16 by kernels
  std::shared_ptr<Staging> staging;  ///< for this rank's calls that the host makes
};

/// All ranks call it together: it shares memory, and tries out the shared memory. It may fail on
/// some ranks only; the ranks have to agree afterwards.
Result<std::shared_ptr<DeviceWay>> make_group(const GroupWayOptions& options, Exchange& exchange,
                                              Exchange::TimePoint deadline);

}  // namespace ccoll::device
