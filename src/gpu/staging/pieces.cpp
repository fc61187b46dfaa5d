// SPDX-License-Identifier: Apache-2.0
#include "gpu/staging/pieces.hpp"

#include "gpu/staging/device_to_host.hpp"
#include "gpu/staging/host_to_device.hpp"

namespace ccoll::device {

PiecePlan PiecePlan::of(std::span<const MemoryRange> lifted, std::span<const MemoryRange> landed,
                        std::uint64_t piece_bytes) {
  PiecePlan plan{.piece_bytes = piece_bytes, .messages = lifted.size() + landed.size()};
  std::uint64_t bytes = 0;
  const auto count = [&] {
    bytes = plan.steps = 0;
    for (const MemoryRange& each : lifted) {
      bytes += each.bytes;
      plan.steps += StagedDeviceToHost::steps(each.bytes, plan.piece_bytes);
    }
    for (const MemoryRange& each : landed) {
      bytes += each.bytes;
      plan.steps += StagedHostToDevice::steps(each.bytes, plan.piece_bytes);
    }
  };
  count();
  if (plan.steps <= kMostSteps) return plan;
  // A message's last step may be for less than a piece.
  constexpr std::uint64_t kUnit = 64 << 10;
  const auto whole = kMostSteps - std::min(plan.messages, kMostSteps / 2);
  plan.are_own = true;
  plan.piece_bytes =
      std::max(piece_bytes, (bytes / whole + kUnit) / kUnit * kUnit - Pieces::kMargin);
  count();
  return plan;
}

}  // namespace ccoll::device
