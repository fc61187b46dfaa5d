// SPDX-License-Identifier: Apache-2.0
#include "comm/streams/device_ways.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include "core/result.hpp"
#include "core/text.hpp"

namespace ccoll {
namespace {

/// A team has room for the buffer addresses of so many ranks and GPUs (gpu/program/program.hpp).
constexpr std::size_t kMostRanks = 64, kMostGpus = 16;

std::size_t count_gpus(std::span<const PeerAddress> ranks) {
  std::set<std::uint32_t> gpus;
  for (const PeerAddress& rank : ranks) gpus.insert(rank.device);
  return gpus.size();
}

/// Picks by the ranks' places.
DeviceWayPick pick_by_place(std::span<const PeerAddress> ranks) {
  const auto all_have = [&](auto what) {
    return std::ranges::all_of(ranks, [&](const PeerAddress& rank) {
      return std::invoke(what, rank) == std::invoke(what, ranks.front());
    });
  };
  std::vector<std::uint32_t> without;
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank].device == 0) without.push_back(rank);
  if (!without.empty())
    return {DeviceWay::host, fmt::format("{} without a GPU", list_ranks(without))};
  if (ranks.size() > kMostRanks)
    return {DeviceWay::host, fmt::format("{} ranks: at most {}", ranks.size(), kMostRanks)};
  if (!all_have(&PeerAddress::host)) return {DeviceWay::host, "ranks are on several hosts"};
  const std::size_t gpus = count_gpus(ranks);
  const bool is_across = !all_have(&PeerAddress::process);
  // If two processes share a GPU, one's kernel that waits would keep the other's from running. If
  // ranks of one process share it, they would have to meet for a launch.
  if (is_across && gpus == ranks.size() && gpus <= kMostGpus)
    return {DeviceWay::team,
            fmt::format("{} ranks of several processes of one host have a GPU each", ranks.size()),
            DeviceWay::steps, gpus, true};
  if (is_across)
    return {DeviceWay::steps,
            fmt::format("{} ranks are several processes of one host, {}", ranks.size(),
                        gpus < ranks.size() ? "which share GPUs" : "on too many GPUs"),
            DeviceWay::host, gpus};
  if (gpus > 1)
    return {DeviceWay::team,
            fmt::format("{} ranks are threads of one process on {} GPUs", ranks.size(), gpus),
            DeviceWay::steps, gpus};
  return {DeviceWay::team,
          ranks.size() == 1
              ? std::string("one rank on its GPU")
              : fmt::format("{} ranks are threads of one process on one GPU", ranks.size())};
}

}  // namespace

std::string_view to_string(DeviceWay way) {
  switch (way) {
    case DeviceWay::automatic:
      return "automatic";
    case DeviceWay::team:
      return "team";
    case DeviceWay::steps:
      return "steps";
    case DeviceWay::host:
      return "host";
  }
  return "no DeviceWay";
}

std::string_view to_string(DeviceCopies copies) {
  switch (copies) {
    case DeviceCopies::by_size:
      return "by_size";
    case DeviceCopies::always:
      return "always";
    case DeviceCopies::never:
      return "never";
  }
  return "no DeviceCopies";
}

std::optional<DeviceWay> parse_device_way(std::string_view name) {
  for (const auto way : {DeviceWay::automatic, DeviceWay::team, DeviceWay::steps, DeviceWay::host})
    if (to_string(way) == name) return way;
  return std::nullopt;
}

std::optional<DeviceCopies> parse_device_copies(std::string_view name) {
  for (const auto copies : {DeviceCopies::by_size, DeviceCopies::always, DeviceCopies::never})
    if (to_string(copies) == name) return copies;
  return std::nullopt;
}

DeviceShare least_share(std::span<const PeerAddress> ranks) {
  DeviceShare least{.copies = DeviceCopies::always};
  for (const PeerAddress& rank : ranks) {
    const std::uint32_t blocks = rank.device_blocks;
    if (blocks != 0 && (least.blocks == 0 || blocks < least.blocks)) least.blocks = blocks;
    const auto copies = static_cast<DeviceCopies>(rank.device_copies);
    const bool has_fewer = copies == DeviceCopies::never || (copies == DeviceCopies::by_size &&
                                                             least.copies == DeviceCopies::always);
    if (has_fewer) least.copies = copies;
  }
  return least;
}

DeviceWayPick pick_device_way(std::span<const PeerAddress> ranks, DeviceWay asked) {
  auto pick = pick_by_place(ranks);
  pick.share = least_share(ranks);
  if (asked == DeviceWay::automatic) return pick;
  pick.next = DeviceWay::host;
  if (asked == pick.way) return pick;
  // Steps work wherever a team does.
  const bool is_allowed =
      asked == DeviceWay::host || (asked == DeviceWay::steps && pick.way == DeviceWay::team);
  pick.why = is_allowed ? std::string("it was asked for")
                        : fmt::format("{} was asked for, but {}", to_string(asked), pick.why);
  pick.way = is_allowed ? asked : DeviceWay::host;
  pick.is_across = false;
  return pick;
}

std::vector<DeviceLimits> device_limits(DeviceWay way) {
  constexpr std::size_t kKiB = 1024;
  // Each lane has a block of threads; the data of several blocks should stay in a cache.
  if (way == DeviceWay::team)
    return {{512 * kKiB, 16}, {256 * kKiB, 16}, {128 * kKiB, 8}, {64 * kKiB, 8},
            {32 * kKiB, 4},   {16 * kKiB, 4},   {16 * kKiB, 2},  {16 * kKiB, 1}};
  // One stream does all lanes, and each slice costs a few operations.
  return {{4096 * kKiB, 1}, {1024 * kKiB, 1}, {256 * kKiB, 1}, {64 * kKiB, 1}, {16 * kKiB, 1}};
}

Forced limited(Forced forced, const DeviceLimits& limits) {
  forced.max_lanes = std::min(forced.max_lanes.value_or(limits.lanes), limits.lanes);
  return forced;
}

CostTable device_costs(DeviceWay way, std::uint32_t ranks, std::size_t gpus,
                       const DeviceLimits& limits) {
  CostTable costs;
  costs.slot_bytes = limits.slice_bytes;
  if (way == DeviceWay::team) {
    // One block's flag reaches another through the GPU's cache; the bandwidth is one block's.
    costs.links = {.latency_ns = 1500, .bandwidth_bytes_per_s = 40e9, .step_ns = 500};
    // The same from one GPU to another.
    if (gpus > 1) costs.links = {.latency_ns = 2500, .bandwidth_bytes_per_s = 20e9, .step_ns = 500};
    costs.reduce_bytes_per_s = 40e9;
    costs.rails = limits.lanes;
  } else {
    // Another process takes its turn on the GPU, and has all of it meanwhile.
    costs.links = {.latency_ns = 15'000, .bandwidth_bytes_per_s = 800e9, .step_ns = 5000};
    costs.reduce_bytes_per_s = 800e9;
    costs.cores_per_rank = 1.0 / ranks;
  }
  costs.inside = costs.links;
  return costs;
}

}  // namespace ccoll
