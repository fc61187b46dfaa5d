// SPDX-License-Identifier: Apache-2.0
#include "comm/groups/agreement.hpp"

#include "algorithms/algorithms.hpp"
#include "system/variables.hpp"
#include "transport/transport.hpp"

namespace ccoll {
namespace {

// From the lowest bit: 7 bits for transports that may not be used, a flag, 8 bits for the
// algorithm's number + 1, 12 for the lanes (0: not asked for), and more flags.
constexpr std::uint32_t kTransportMask = (1U << kMostTransports) - 1, kGpuDirect = 1U << 7;
static_assert((kTransportMask & kGpuDirect) == 0);
constexpr std::uint32_t kLanesAt = 16, kLanesMask = 0xfff;
constexpr std::uint32_t kDeterministic = 1U << 28, kChecksum = 1U << 29;
/// Place of the DeviceWay's number.
constexpr std::uint32_t kDeviceWayAt = 30, kDeviceWayMask = 3;
static_assert(kMaxLanes <= kLanesMask);

std::string_view algorithm_name(std::uint32_t number) {
  return number == 0 ? "by cost" : to_string(static_cast<Algorithm>(number - 1));
}

}  // namespace

Result<std::uint32_t> agreement_of(const CommunicatorOptions& options) {
  std::uint32_t agreement = 0;
  if (!options.transport.empty()) {
    const auto choice = TransportChoice::parse(options.transport);
    if (!choice) return tl::unexpected(choice.error());
    agreement |= choice->excluded();
  }
  if (!options.algorithm.empty()) {
    const auto algorithm = parse_algorithm(options.algorithm);
    if (!algorithm)
      return fail(ErrorKind::invalid_argument,
                  "no algorithm '{}' (CCOLL_ALGO); cc-bench info lists them", options.algorithm);
    agreement |= (static_cast<std::uint32_t>(*algorithm) + 1) << 8;
  }
  if (options.max_lanes < 0 || options.max_lanes > kMaxLanes)
    return fail(ErrorKind::invalid_argument,
                "max_lanes is {} (CCOLL_LANES): expected 1 to {}, or 0 (chosen by cost)",
                options.max_lanes, kMaxLanes);
  if (options.deterministic) agreement |= kDeterministic;
  if (options.checksum) agreement |= kChecksum;
  if (options.device.direct_messages) agreement |= kGpuDirect;
  const auto way = static_cast<std::uint32_t>(options.device.way);
  if (way > kDeviceWayMask)
    return fail(ErrorKind::invalid_argument, "device.way is {}: {}", way,
                to_string(options.device.way));
  agreement |= way << kDeviceWayAt;
  return agreement | static_cast<std::uint32_t>(options.max_lanes) << kLanesAt;
}

std::string agreement_text(std::uint32_t agreement) {
  const auto lanes = agreement >> kLanesAt & kLanesMask;
  const auto way = static_cast<DeviceWay>(agreement >> kDeviceWayAt & kDeviceWayMask);
  return fmt::format(
      "transport {}, algorithm {}, lanes {}{}{}{}{}",
      TransportChoice(agreement & kTransportMask).text(), algorithm_name((agreement >> 8) & 0xff),
      lanes == 0 ? "by cost" : std::to_string(lanes),
      (agreement & kDeterministic) != 0 ? ", deterministic" : "",
      (agreement & kChecksum) != 0 ? ", checksums" : "",
      way == DeviceWay::automatic ? "" : fmt::format(", devices by {}", to_string(way)),
      (agreement & kGpuDirect) != 0 ? ", GPUs' memory direct" : "");
}

}  // namespace ccoll
