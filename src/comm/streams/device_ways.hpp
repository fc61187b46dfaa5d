// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which way collectives of a communicator go whose ranks have GPUs, and what that costs. Pure:
/// from what all ranks know of each other, so that all come to the same.

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

/// By what to_string calls it; nothing for any other name.
std::optional<DeviceWay> parse_device_way(std::string_view name);
std::optional<DeviceCopies> parse_device_copies(std::string_view name);

/// The part of a GPU that its collectives may use.
struct DeviceShare {
  std::uint32_t blocks = 0;  ///< at most; 0: as many as a GPU runs at once
  DeviceCopies copies = DeviceCopies::by_size;
  friend bool operator==(const DeviceShare&, const DeviceShare&) = default;
};
/// The least that one of those ranks gives.
DeviceShare least_share(std::span<const PeerAddress> ranks);

struct DeviceWayPick {
  DeviceWay way = DeviceWay::host;
  std::string why;  ///< "all 4 ranks are threads of one process on one GPU"
  /// What serves where that one cannot be made.
  DeviceWay next = DeviceWay::host;
  std::size_t gpus = 1;  ///< that the ranks have
  /// Of a team: it is of several processes, and each rank has a GPU of its own.
  bool is_across = false;
  DeviceShare share = {};
};

/// For a communicator of those ranks; `asked`: what its options ask for.
DeviceWayPick pick_device_way(std::span<const PeerAddress> ranks, DeviceWay asked);

/// What a program is made with: the most that its slices and lanes may be.
struct DeviceLimits {
  std::size_t slice_bytes = 0;
  std::uint16_t lanes = 1;
};
/// From those with which programs are fastest down to those that need the least memory.
std::vector<DeviceLimits> device_limits(DeviceWay way);

/// `forced` with no more lanes than that.
Forced limited(Forced forced, const DeviceLimits& limits);

/// Estimates: nobody has measured them.
/// `gpus`: how many the ranks have.
CostTable device_costs(DeviceWay way, std::uint32_t ranks, std::size_t gpus,
                       const DeviceLimits& limits);

}  // namespace ccoll
