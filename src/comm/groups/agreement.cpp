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
constexpr std::uint32_t kAlgorithmAt = 8, kAlgorithmMask = 0xff;
constexpr std::uint32_t kLanesAt = 16, kLanesMask = 0xfff;
constexpr std::uint32_t kDeterministic = 1U << 28, kChecksum = 1U << 29;
/// Place of the DeviceWay's number.
constexpr std::uint32_t kDeviceWayAt = 30, kDeviceWayMask = 3;
static_assert(kMaxLanes <= kLanesMask);

std::string transport_text(std::uint32_t agreement) {
  return TransportChoice(agreement & kTransportMask).text();
}

std::string algorithm_text(std::uint32_t agreement) {
  const auto number = agreement >> kAlgorithmAt & kAlgorithmMask;
  return std::string(number == 0 ? "by cost" : to_string(static_cast<Algorithm>(number - 1)));
}

std::string lanes_text(std::uint32_t agreement) {
  const auto lanes = agreement >> kLanesAt & kLanesMask;
  return lanes == 0 ? "by cost" : std::to_string(lanes);
}

std::string device_way_text(std::uint32_t agreement) {
  return std::string(to_string(static_cast<DeviceWay>(agreement >> kDeviceWayAt & kDeviceWayMask)));
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
    agreement |= (static_cast<std::uint32_t>(*algorithm) + 1) << kAlgorithmAt;
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

std::string disagreement_text(std::uint32_t one, std::uint32_t other, std::string_view name_of_one,
                              std::string_view name_of_other) {
  std::string text;
  const auto compare = [&](std::string_view variable, std::string_view of_one,
                           std::string_view of_other) {
    if (of_one == of_other) return;
    text += fmt::format("{}{}: {} has {}, {} has {}", text.empty() ? "" : "; ", variable,
                        name_of_one, of_one, name_of_other, of_other);
  };
  const auto compare_flag = [&](std::string_view variable, std::uint32_t flag) {
    compare(variable, (one & flag) != 0 ? "1" : "0", (other & flag) != 0 ? "1" : "0");
  };
  const auto compare_each = [&](std::string_view variable, auto text_of) {
    compare(variable, text_of(one), text_of(other));
  };
  compare_each("CCOLL_TRANSPORT", transport_text);
  compare_each("CCOLL_ALGO", algorithm_text);
  compare_each("CCOLL_LANES", lanes_text);
  compare_flag("CCOLL_DETERMINISTIC", kDeterministic);
  compare_flag("CCOLL_CHECKSUM", kChecksum);
  compare_each("CCOLL_DEVICE_WAY", device_way_text);
  compare_flag("CCOLL_GPU_DIRECT", kGpuDirect);
  return text;
}

}  // namespace ccoll
