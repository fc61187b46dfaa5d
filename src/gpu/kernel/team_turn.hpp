// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One block's part in a call that has its team for itself: the call claims the team, waits until
/// other devices have ended the call before, and leaves the team to the next call. In between, the
/// interpreter runs the steps (interpret.hpp).

#include <cstdint>

#include "gpu/kernel/claim.hpp"
#include "gpu/program/program.hpp"
#include "gpu/program/stop_gate.hpp"
#include "kernels/device/layer.hpp"

namespace ccoll::device {

template <Block B>
class TeamTurn {
 public:
  /// `shared`: kStopGateWords + TeamProgram::kTicketWords words that the block's threads share.
  CCOLL_HOST_DEVICE TeamTurn(const B& block, const TeamLaunch& launch, std::uint32_t number,
                             std::uint64_t* shared)
      : block_(block),
        launch_(launch),
        program_(launch.program),
        mine_(launch.program.blocks[number]),
        number_(number),
        gate_(block, shared),
        ticket_(shared + kStopGateWords) {}

 protected:
  /// Takes the ticket, and advances those that fall to this block. False if the call is aborted
  /// before all devices have ended the call before, or finds another call under way: it then ends.
  CCOLL_HOST_DEVICE bool begin() {
    if (is_first()) {
      const bool is_aborted = load_relaxed(launch_.abort) != 0;
      gate_.open();
      if (claim() || is_aborted) gate_.stop();
      // The ticket is the block's own, which it then advances.
      const TeamTicket ticket = launch_.state.tickets[number_];
      ticket_[0] = ticket.base;
      ticket_[1] = ticket.calls + 1;
    }
    const bool goes_on = gate_.pass();
    base_ = ticket_[0];
    call_ = ticket_[1];
    const TeamTicket next{base_ + program_.span, call_};
    for (std::uint64_t i = number_ + std::uint64_t{block_.thread()} * program_.block_count;
         i < launch_.state.ticket_count;
         i += std::uint64_t{block_.threads()} * program_.block_count) {
      launch_.state.tickets[i] = next;
    }
    if (is_first()) {
      if (number_ == 0 && launch_.state.words[mine_.device] != nullptr) {
        store_relaxed(&launch_.state.words[mine_.device][aged_tiny_word(call_)],
                      tiny_word(call_, 0));
      }
      store_relaxed(&launch_.progress[mine_.number].ending, 0);
      store_relaxed(&launch_.progress[mine_.number].steps, 0);
      store_relaxed(&launch_.progress[mine_.number].call, call_);
    }
    return goes_on && (launch_.state.awaited_devices == 0 || await_devices());
  }

  /// Other devices still use their memory for the call before until they have ended it.
  CCOLL_HOST_DEVICE bool await_devices() {
    for (std::uint32_t i = block_.thread(); i < launch_.state.awaited_devices;
         i += block_.threads()) {
      wait_for(flag(mine_.device, launch_.state.ended + i), 0);
    }
    return gate_.pass();
  }

  /// Waits until the team is the call's own: its first block claims it for all. If another call has
  /// it, both have to end, this one by the result. That call ends, since all blocks of a call run
  /// at once. So calls have the team one after the other, and nothing is left to reset.
  CCOLL_HOST_DEVICE bool claim() {
    std::uint64_t* const owner = &launch_.state.claim->owner;
    std::uint64_t seen = 2 * launch_.id;
    if (number_ == 0) {
      if (exchange_if(owner, 0, seen)) return false;
      tell_busy(launch_.busy, launch_.abort);
      while (!take_over(owner, seen + 1)) relax();
      return true;
    }
    while ((seen = load_relaxed(owner)) / 2 != launch_.id) relax();
    // This acquires what the call before has released: the first block's exchange hands it on.
    load_acquire(owner);
    return seen % 2 != 0;
  }

  /// The last block leaves the team to the next call, with all that this call's blocks have done.
  CCOLL_HOST_DEVICE void end(TeamEnding ending) {
    block_.barrier();
    if (is_first()) {
      store_relaxed(&launch_.progress[mine_.number].ending, static_cast<std::uint64_t>(ending));
      ticket_[0] = is_last() ? 1 : 0;  // read long ago
    }
    if (launch_.state.awaited_devices != 0) tell_devices();
    // This comes last, so that the next call's flags come behind this one's.
    if (is_first() && ticket_[0] != 0) store_release(&launch_.state.claim->owner, 0);
  }

  /// Whether all other blocks of the launch have ended; what they have done is then seen.
  CCOLL_HOST_DEVICE bool is_last() const {
    if (program_.block_count == 1) return true;
    std::uint64_t* const gone = &launch_.state.claim->gone;
    if (add(gone, 1) < program_.block_count) return false;
    load_acquire(gone);
    store_relaxed(gone, 0);
    return true;
  }

  /// The last block reports that the call has ended here, with a thread for each device. A release
  /// waits for its own thread's earlier writes, and so for the way to another device.
  CCOLL_HOST_DEVICE void tell_devices() const {
    block_.barrier();
    for (std::uint32_t i = block_.thread(); ticket_[0] != 0 && i < launch_.state.awaited_devices;
         i += block_.threads()) {
      store_release(flag(i, launch_.state.ended + mine_.device), base_ + program_.span);
    }
    block_.barrier();
  }

  CCOLL_HOST_DEVICE void wait_for(const std::uint64_t* flag, std::uint64_t count) {
    for (std::uint32_t spins = 1; load_relaxed(flag) < base_ + count; ++spins) {
      if (spins % launch_.spins_per_look == 0 && load_relaxed(launch_.abort) != 0) {
        return gate_.stop();
      }
      relax();
    }
    load_acquire(flag);
  }

  CCOLL_HOST_DEVICE bool is_first() const { return block_.thread() == 0; }
  CCOLL_HOST_DEVICE std::uint64_t* flag(std::uint32_t device, std::uint32_t number) const {
    return launch_.state.flags[device] + std::uint64_t{number} * kFlagWords;
  }

  const B& block_;
  const TeamLaunch& launch_;
  const TeamProgram& program_;
  const TeamBlock& mine_;
  const std::uint32_t number_;  ///< in the launch
  std::uint64_t base_ = 0;
  std::uint64_t call_ = 0;  ///< from 1
  StopGate<B> gate_;
  std::uint64_t* const ticket_;  ///< base and call, as the first thread has read them
};

}  // namespace ccoll::device
