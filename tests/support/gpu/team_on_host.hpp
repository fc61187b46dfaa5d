// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The team kernel without a GPU: host threads stand in for its blocks, or for all their threads.

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

/// Runs the kernel; returns when all its blocks have ended.
void run_on_host(const device::TeamLaunch& launch, std::uint32_t threads_per_block);

/// A team's device memory, which outlives its calls.
class TeamOnHost {
 public:
  /// `blocks`, `flags`: the most that a program may have, on each of `devices`.
  TeamOnHost(std::uint32_t blocks, std::uint32_t flags, std::uint32_t devices = 1);

  /// One rank's buffers.
  struct Buffers {
    std::byte* input = nullptr;
    std::byte* output = nullptr;
  };
  /// Runs one call to its end, with that many threads per block, and returns how each block ended.
  /// Calls must not overlap, except those of run_beside().
  std::vector<device::TeamEnding> run(const device::LoweredTeam& team,
                                      const std::vector<Buffers>& buffers,
                                      std::uint32_t threads_per_block);
  /// May be called while another thread runs a call.
  void abort();
  void forget_abort() { abort_ = busy_ = 0; }
  /// Like run() for calls that may overlap. Each has its own id; share_workspace() must have made
  /// the workspace large enough for all.
  std::vector<device::TeamEnding> run_beside(const device::LoweredTeam& team,
                                             const std::vector<Buffers>& buffers, std::uint64_t id,
                                             std::uint32_t threads_per_block);
  void share_workspace(std::uint64_t bytes);
  /// The buffers that a rank lends in a call.
  struct Loan {
    std::array<bool, 2> of = {};  ///< input and output
    bool are_apart = true;
  };
  struct Call {
    const device::LoweredTeam& team;
    std::vector<Buffers> buffers;
    /// By rank, with one device per rank; empty: nothing is lent.
    std::vector<Loan> loans = {};
    /// Called when that device has ended its part of the call and not begun the next.
    std::function<void(std::uint32_t device)> has_ended = nullptr;
  };
  /// Runs the calls in order, each device by itself: it begins a call once it has ended the one
  /// before, whatever other devices do. The programs must be lowered to lend nothing; the calls'
  /// loans apply at run time. Returns whether every block finished.
  bool run_apart(const std::vector<Call>& calls, std::uint32_t threads_per_block);
  /// Whether a call has found another one running.
  bool was_busy() const { return device::load_acquire(&busy_) != 0; }

  /// The claim of a call by copies, on the first device.
  device::CopyClaim copies(std::uint64_t id) { return {&devices_[0].claim, id, &abort_, &busy_}; }

  const device::TeamClaim& claim(std::size_t device = 0) const { return devices_[device].claim; }
  /// Acts as if this many calls had been made, and leaves in each word that is used next the oldest
  /// value that it may hold.
  void start_behind(std::uint64_t calls, std::mt19937_64& random);
  const std::vector<std::uint64_t>& flags() const { return devices_[0].flags; }
  const std::vector<std::uint64_t>& words(std::size_t device = 0) const {
    return devices_[device].words;
  }
  /// Before a call each byte is kUntouched.
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
  /// Sets up the launch as one rank does for its part of a call that lends.
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
