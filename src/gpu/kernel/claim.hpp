// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How a team's call by copies claims the team (TeamClaim), as its kernels do, so that calls in
/// flight at once are found out. Kernels of one thread do it before and behind the copies; they
/// wait for nothing. Shared by host and device code.

#include <cstdint>

#include "gpu/program/program.hpp"
#include "kernels/device/layer.hpp"

namespace ccoll::device {

/// The claim of one call.
struct CopyClaim {
  TeamClaim* claim = nullptr;
  std::uint64_t id = 0;  ///< TeamLaunch's
  std::uint64_t* abort = nullptr;
  std::uint64_t* busy = nullptr;
};

CCOLL_HOST_DEVICE constexpr std::uint64_t owner_of(const CopyClaim& copies) {
  return copies.id | kByCopies;
}

/// Reports that a call has found another one under way, and ends both. A kernel that sees that it
/// must end also sees why.
CCOLL_HOST_DEVICE inline void tell_busy(std::uint64_t* busy, std::uint64_t* abort) {
  store_relaxed(busy, 1);
  store_release(abort, 1);
}

/// For a kernel that has found another call's claim: false as long as that is a kernel's. Copies
/// end when they are made; this kernel writes nothing, so they do not concern it. It must not wait
/// for the kernel behind them, which may itself be waiting for room.
CCOLL_HOST_DEVICE inline bool take_over(std::uint64_t* owner, std::uint64_t value) {
  const std::uint64_t seen = load_relaxed(owner);
  return (seen == 0 || (seen & kByCopies) != 0) && exchange_if(owner, seen, value);
}

CCOLL_HOST_DEVICE inline void begin_copies(const CopyClaim& copies) {
  if (!exchange_if(&copies.claim->owner, 0, owner_of(copies))) tell_busy(copies.busy, copies.abort);
}

/// If the claim has been taken over, or was another's from the beginning, it stays. Nothing is
/// published: this kernel has written nothing, and the stream has ended the copies before it.
CCOLL_HOST_DEVICE inline void end_copies(const CopyClaim& copies) {
  (void)exchange_if(&copies.claim->owner, owner_of(copies), 0);
}

/// The kernels, each `void(const CopyClaim)`, as cudaLaunchKernel takes them.
const void* copies_begin_kernel();
const void* copies_end_kernel();

}  // namespace ccoll::device
