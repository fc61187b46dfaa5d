// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The way that collectives go in a communicator whose ranks have GPUs, and its costs. Pure: it
/// only uses what all ranks know of each other, so that all decide alike.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "ccoll/device.hpp"
#include "net/peer_address.hpp"

namespace ccoll {

/// The way with that name in to_string; nothing for any other name.
std::optional<DeviceWay> parse_device_way(std::string_view name);
std::optional<DeviceCopies> parse_device_copies(std::string_view name);

/// The part of a GPU that its collectives may use.
struct DeviceShare {
  std::uint32_t blocks = 0;  ///< at most; 0: as many as a GPU runs at once
  DeviceCopies copies = DeviceCopies::by_size;
  friend bool operator==(const DeviceShare&, const DeviceShare&) = default;
};
/// The smallest share that one of those ranks gives.
DeviceShare least_share(std::span<const PeerAddress> ranks);

struct DeviceWayPick {
  DeviceWay way = DeviceWay::host;
  std::string why;  ///< "all 4 ranks are threads of one process on one GPU"
  /// Serves if that way cannot be made.
  DeviceWay next = DeviceWay::host;
  std::size_t gpus = 1;  ///< of the ranks
  /// For a team: it spans several processes, and each rank has a GPU of its own.
  bool is_across = false;
  DeviceShare share = {};
};

/// Picks for a communicator of those ranks; `asked`: the way in its options.
DeviceWayPick pick_device_way(std::span<const PeerAddress> ranks, DeviceWay asked);

/// Limits for a program: its longest slices and most lanes.
struct DeviceLimits {
  std::size_t slice_bytes = 0;
  std::uint16_t lanes = 1;
};
/// From the limits of the fastest programs down to those that need the least memory.
std::vector<DeviceLimits> device_limits(DeviceWay way);

/// `forced` with no more lanes than the limits allow.
Forced limited(Forced forced, const DeviceLimits& limits);

/// Estimates, which nobody has measured. `gpus`: how many the ranks have.
CostTable device_costs(DeviceWay way, std::uint32_t ranks, std::size_t gpus,
                       const DeviceLimits& limits);

}  // namespace ccoll
