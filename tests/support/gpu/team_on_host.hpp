// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The team kernel without a GPU: host threads take the place of its blocks, or of all their
/// threads.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "gpu/kernel/claim.hpp"
#include "gpu/program/lower.hpp"
#include "kernels/device/layer.hpp"

namespace ccoll::testing {

/// The kernel: returns when all its blocks have ended.
void run_on_host(const device::TeamLaunch& launch, std::uint32_t threads_per_block);

/// What is device memory for a team, and outlives its calls.
class TeamOnHost {
 public:
  /// `blocks`, `flags`: the most that a program may have, on each of so many devices.
  TeamOnHost(std::uint32_t blocks, std::uint32_t flags, std::uint32_t devices = 1);

  /// Of each rank.
  struct Buffers {
    std::byte* input = nullptr;
    std::byte* output = nullptr;
  };
  /// Runs one call to its end, with so many threads per block; how each block ended. One at a time,
  /// which run_beside() need not be.
  std::vector<device::TeamEnding> run(const device::LoweredTeam& team,
                                      const std::vector<Buffers>& buffers,
                                      std::uint32_t threads_per_block);
  /// May be called while another thread runs a call.
  void abort();
  void forget_abort() { abort_ = busy_ = 0; }
  /// The same of calls that may be under way at once, each with an id of its own, on a workspace
  /// that share_workspace() has made large enough for all of them.
  std::vector<device::TeamEnding> run_beside(const device::LoweredTeam& team,
                                             const std::vector<Buffers>& buffers, std::uint64_t id,
                                             std::uint32_t threads_per_block);
  void share_workspace(std::uint64_t bytes);
  /// What a rank lends of its buffers in a call.
  struct Loan {
    std::array<bool, 2> of = {};  ///< input and output
    bool are_apart = true;
  };
  struct Call {
    const device::LoweredTeam& team;
    std::vector<Buffers> buffers;
    /// By rank, each of which has a device of its own then; empty: nothing is lent.
    std::vector<Loan> loans = {};
    /// Called when that device has ended its part of it, and not begun the next.
    std::function<void(std::uint32_t device)> has_ended = nullptr;
  };
  /// The calls one after another, on each device by itself: it begins one when it has ended the one
  /// before, whatever others still do. Of programs that were lowered to lend nothing; what the
  /// calls lend shows when they run. Whether each block finished.
  bool run_apart(const std::vector<Call>& calls, std::uint32_t threads_per_block);
  /// Whether a call has found another one under way.
  bool was_busy() const { return device::load_acquire(&busy_) != 0; }

  /// As a call by copies has it, on the first device.
  device::CopyClaim copies(std::uint64_t id) { return {&devices_[0].claim, id, &abort_, &busy_}; }

  const device::TeamClaim& claim(std::size_t device = 0) const { return devices_[device].claim; }
  /// As if so many calls had been, the last of which have left in each word that is used next what
  /// may be the oldest there.
  void start_behind(std::uint64_t calls, std::mt19937_64& random);
  const std::vector<std::uint64_t>& flags() const { return devices_[0].flags; }
  const std::vector<std::uint64_t>& words(std::size_t device = 0) const {
    return devices_[device].words;
  }
  /// What is there before a call: kUntouched in each byte.
  const std::vector<std::byte>& workspace(std::size_t device = 0) const {
    return devices_[device].workspace;
  }
  static constexpr std::byte kUntouched{0xa5};
  const std::vector<device::TeamTicket>& tickets(std::size_t device = 0) const {
    return devices_[device].tickets;
  }
  const std::vector<device::TeamProgress>& progress() const { return progress_; }

 private:
  struct Device {
    std::vector<device::TeamTicket> tickets;
    std::vector<std::uint64_t> flags;
    std::vector<std::uint64_t> words;
    std::vector<std::byte> workspace;
    device::TeamClaim claim;
  };
  device::TeamLaunch launch_of(const device::LoweredTeam& team,
                               const std::vector<Buffers>& buffers);
  /// As one rank launches its part of a call that lends.
  static void lend(device::TeamLaunch& launch, const Call& call, std::uint32_t rank,
                   const std::vector<device::LoanPlace>& places);
  void run_on_devices(const device::LoweredTeam& team, const device::TeamLaunch& launch,
                      std::uint32_t threads_per_block);
  void run_on_device(std::uint32_t number, const device::LoweredTeam& team,
                     device::TeamLaunch launch, std::uint32_t threads_per_block);

  const std::uint32_t flags_;
  std::vector<Device> devices_;
  std::vector<device::TeamProgress> progress_;
  std::uint64_t abort_ = 0;
  std::uint64_t busy_ = 0;
};

}  // namespace ccoll::testing
