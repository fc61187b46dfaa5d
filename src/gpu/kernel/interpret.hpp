// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One block's work in the team kernel: the device's interpreter of schedules. Compiled by nvcc,
/// and as host code for the tests.
///
/// How a slice passes from block to block: the sender's block writes the bytes and passes a
/// barrier, then one thread stores the channel's pushed flag with release. One thread of the
/// receiver's block loads it with acquire, the block passes a barrier and reads the bytes. The
/// popped flag frees the slot in the same way. A flag holds the call's base plus a count, so it
/// only grows, over all calls. What an earlier call left there, finished or aborted, is below all
/// that this one waits for. If all slices are tiny, they travel by words instead (tiny_step.hpp).

#include <cstddef>
#include <cstdint>

#include "gpu/kernel/block_loans.hpp"
#include "gpu/kernel/team_turn.hpp"
#include "gpu/kernel/tiny_step.hpp"
#include "gpu/program/program.hpp"
#include "kernels/device/combine.hpp"
#include "kernels/device/layer.hpp"

namespace ccoll::device {

/// Runs programs whose type and operation are of one family, either by words or by slots.
template <Family family, bool by_words, Block B>
class TeamInterpreter : TeamTurn<B> {
  using Turn = TeamTurn<B>;
  using Turn::base_, Turn::block_, Turn::call_, Turn::gate_, Turn::launch_, Turn::mine_,
      Turn::program_;
  using Turn::flag, Turn::is_first, Turn::wait_for;

 public:
  /// `shared`: program.shared_words() words that the block's threads share.
  CCOLL_HOST_DEVICE TeamInterpreter(const B& block, const TeamLaunch& launch, std::uint32_t number,
                                    std::uint64_t* shared)
      : Turn(block, launch, number, shared),
        counts_(shared + kStopGateWords + TeamProgram::kTicketWords),
        loans_(launch, counts_ + program_.most_ends),
        at_(reinterpret_cast<std::byte**>(counts_ + program_.most_ends + program_.loan_words())),
        left_(reinterpret_cast<std::uint64_t*>(at_ + program_.widest)),
        part_(left_ + program_.widest) {}

  CCOLL_HOST_DEVICE void run() {
    const bool goes_on = this->begin();
    for (std::uint32_t i = block_.thread(); i < mine_.ends; i += block_.threads()) counts_[i] = 0;
    const bool is_whole = goes_on && run_steps() && await_readers();
    this->end(is_whole ? TeamEnding::finished : TeamEnding::aborted);
  }

 private:
  /// False when the call is aborted.
  CCOLL_HOST_DEVICE bool run_steps() {
    const std::uint32_t steps = mine_.steps.size();
    std::uint64_t done = 0;
    for (std::uint64_t window = mine_.stripe; window < program_.windows;
         window += program_.stripes) {
      for (std::uint32_t i = 0; i < steps; ++i) {
        if (!run_step(program_.steps[mine_.steps.begin + i], window)) return false;
        tell(++done);
      }
    }
    return true;
  }

  CCOLL_HOST_DEVICE bool run_step(const TeamStep& step, std::uint64_t window) {
    if constexpr (by_words) {
      return run_tiny(step, window);
    } else {
      return run_by_slots(step, window);
    }
  }

  /// Slices come by slots, or are read where they lie.
  CCOLL_HOST_DEVICE bool run_by_slots(const TeamStep& step, std::uint64_t window) {
    const bool active = window < step.windows, lends = loans_.lends(step);
    if (active || step.after != kNone) {
      await(step, window, active, lends);
      if (active) place(step, window, lends);
      if (!gate_.pass()) return false;
    }
    if (active) {
      make(step, window, lends);
      // After this the cursors are free, and the results are complete.
      block_.barrier();
      publish(step);
    }
    return true;
  }

  /// Slices come by words, for which each thread waits by itself.
  CCOLL_HOST_DEVICE bool run_tiny(const TeamStep& step, std::uint64_t window) {
    if (step.after != kNone) {
      await(step, window, false, false);
      if (!gate_.pass()) return false;
    }
    if (window >= step.windows) return true;
    const TinyStep<family, B> tiny(block_, launch_, mine_.device, call_);
    if (!tiny.make(step, window)) gate_.stop();
    return gate_.pass();
  }

  /// Reports how many steps this block has finished.
  CCOLL_HOST_DEVICE void tell(std::uint64_t done) const {
    if (!is_first()) return;
    if (mine_.awaited) store_release(done_flag(mine_.number), base_ + done);
    store_relaxed(&launch_.progress[mine_.number].steps, done);
  }

  // The same thread clears, reads and advances an end's count.

  CCOLL_HOST_DEVICE void await(const TeamStep& step, std::uint64_t window, bool active,
                               bool lends) {
    if (step.after != kNone && is_first()) {
      const std::uint64_t round = window / program_.stripes;
      wait_for(done_flag(step.after), round * step.after_steps + step.after_step + 1);
    }
    if (!active) return;
    for (std::uint32_t i = step.receives.begin; i < step.receives.end; ++i) {
      const TeamEnd& end = program_.ends[i];
      if (!is_owner(end)) continue;
      wait_for(pushed_flag(end), counts_[end.number] + 1);
      if (counts_[end.number] == 0) loans_.hear(end, pushed_flag(end));
    }
    if (lends) return;
    for (std::uint32_t i = step.sends.begin; i < step.sends.end; ++i) {
      const TeamEnd& end = program_.ends[i];
      if (!is_owner(end) || counts_[end.number] < program_.slots) continue;
      wait_for(popped_flag(end), counts_[end.number] + 1 - program_.slots);
    }
  }

  CCOLL_HOST_DEVICE void publish(const TeamStep& step) {
    for (std::uint32_t i = step.receives.begin; i < step.receives.end; ++i) {
      const TeamEnd& end = program_.ends[i];
      if (!is_owner(end)) continue;
      ++counts_[end.number];
      // If the program lends all of a channel's slices, nobody waits. A program that lends by call
      // never does, as its senders wait for their readers (await_readers).
      if (program_.channels[end.channel].slot_bytes == 0) continue;
      store_release(popped_flag(end), base_ + counts_[end.number]);
    }
    for (std::uint32_t i = step.sends.begin; i < step.sends.end; ++i) {
      const TeamEnd& end = program_.ends[i];
      if (!is_owner(end)) continue;
      if (counts_[end.number] == 0) loans_.tell(pushed_flag(end));
      store_release(pushed_flag(end), base_ + ++counts_[end.number]);
    }
  }

  /// Waits until lent memory is the caller's again: false when the call is aborted before that.
  CCOLL_HOST_DEVICE bool await_readers() {
    if (!loans_.lends_any()) return true;
    for (std::uint32_t i = mine_.steps.begin; i < mine_.steps.end; ++i) {
      const TeamStep& step = program_.steps[i];
      if (!loans_.lends(step)) continue;
      for (std::uint32_t send = step.sends.begin; send < step.sends.end; ++send) {
        const TeamEnd& end = program_.ends[send];
        if (!is_owner(end) || counts_[end.number] == 0) continue;
        wait_for(popped_flag(end), counts_[end.number]);
      }
    }
    return gate_.pass();
  }

  // Cursors are: first the sources in order of rank, then the destination, then the sends' slots.

  CCOLL_HOST_DEVICE static std::uint32_t cursor_of(const TeamStep& step, std::uint32_t receive) {
    return receive + (step.has_local() && receive >= step.own_place ? 1 : 0);
  }

  /// Finds where the step's slices of this window lie.
  CCOLL_HOST_DEVICE void place(const TeamStep& step, std::uint64_t window, bool lends) {
    for (std::uint32_t i = step.receives.begin; i < step.receives.end; ++i) {
      const TeamEnd& end = program_.ends[i];
      if (!is_owner(end)) continue;
      const std::uint32_t cursor = cursor_of(step, i - step.receives.begin);
      const SlicePlace from = loans_.place_of(end);
      if (from.is_in_slot()) {
        at_slot(cursor, end);
      } else {
        seek(cursor, from, from.parts.begin, window);
      }
    }
    const std::uint32_t destination = step.source_count();
    for (std::uint32_t i = step.sends.begin; !lends && i < step.sends.end; ++i) {
      const TeamEnd& end = program_.ends[i];
      if (!is_owner(end)) continue;
      at_slot(destination + 1 + i - step.sends.begin, end);
      if (!step.has_store() && i == step.sends.begin) at_slot(destination, end);
    }
    if (!is_first()) return;
    if (step.has_local()) seek(step.own_place, {step.local}, step.local.begin, window);
    if (step.has_store()) seek(destination, {step.store}, step.store.begin, window);
  }

  CCOLL_HOST_DEVICE void at_slot(std::uint32_t cursor, const TeamEnd& end) {
    const TeamChannel& channel = program_.channels[end.channel];
    at_[cursor] = launch_.buffers[program_.workspace + channel.to] + channel.slots +
                  counts_[end.number] % program_.slots * channel.slot_bytes;
    left_[cursor] = UINT64_MAX;
  }

  /// Goes to the first part from `part` on that has bytes in this window; none left: 0 bytes.
  CCOLL_HOST_DEVICE void seek(std::uint32_t cursor, const SlicePlace& from, std::uint32_t part,
                              std::uint64_t window) {
    left_[cursor] = 0;
    for (; part < from.parts.end && left_[cursor] == 0; ++part) {
      left_[cursor] = program_.bytes_of(program_.parts[part], window);
      at_[cursor] = loans_.address_of(from, program_.parts[part], window);
      part_[cursor] = part;
    }
  }

  /// Combines the sources into the destination, and fills the sends' slots.
  CCOLL_HOST_DEVICE void make(const TeamStep& step, std::uint64_t window, bool lends) {
    const std::uint32_t sources = step.source_count();
    // A result that is lent and not stored is there already.
    for (bool more = !lends || step.has_store(); more;) {
      const std::uint64_t bytes = fold(step, sources);
      more = !step.whole && advance(step, sources, bytes, window);
    }
    if (lends || step.sends.is_empty()) return;
    if (!step.has_store() && step.sends.size() == 1) return;
    // The thread that copies a byte need not be the one that made it.
    block_.barrier();
    fill_slots(step, sources, window);
  }

  /// Combines the stretch for which each cursor stays in one part; returns its bytes.
  CCOLL_HOST_DEVICE std::uint64_t fold(const TeamStep& step, std::uint32_t sources) {
    std::uint64_t bytes = left_[0];
    for (std::uint32_t i = 1; i <= sources; ++i) bytes = left_[i] < bytes ? left_[i] : bytes;
    combine_family<family>(block_, program_.type, program_.op,
                           {at_, sources, at_[sources], bytes, step.divisor});
    return bytes;
  }

  /// Moves all cursors on; false at the slice's end.
  CCOLL_HOST_DEVICE bool advance(const TeamStep& step, std::uint32_t sources, std::uint64_t bytes,
                                 std::uint64_t window) {
    block_.barrier();
    for (std::uint32_t i = block_.thread(); i <= sources; i += block_.threads()) {
      at_[i] += bytes;
      if (left_[i] == UINT64_MAX) continue;  // a slot
      left_[i] -= bytes;
      if (left_[i] == 0) seek(i, place_of(step, i, sources), part_[i] + 1, window);
    }
    block_.barrier();
    // A step has at least one of the two, and it ends with the slice.
    return left_[step.has_local() ? step.own_place : sources] != 0;
  }

  CCOLL_HOST_DEVICE SlicePlace place_of(const TeamStep& step, std::uint32_t cursor,
                                        std::uint32_t sources) const {
    if (cursor == sources) return {step.store};
    if (step.has_local() && cursor == step.own_place) return {step.local};
    return loans_.place_of(program_.ends[step.receive_of(cursor)]);
  }

  /// Copies from the store, or else from the first send's slot.
  CCOLL_HOST_DEVICE void fill_slots(const TeamStep& step, std::uint32_t sources,
                                    std::uint64_t window) {
    const std::uint32_t sends = step.sends.size();
    std::byte* const* const slots = at_ + sources + 1;
    const bool stored = step.has_store();
    const Range layout = stored ? step.store : step.local;
    std::uint64_t offset = 0;
    for (std::uint32_t i = layout.begin; i < layout.end; ++i) {
      const TeamPart& part = program_.parts[i];
      const std::uint64_t bytes = program_.bytes_of(part, window);
      const std::byte* const from = stored ? launch_.address_of(part, window) : slots[0] + offset;
      for (std::uint32_t send = stored ? 0 : 1; send < sends && bytes != 0; ++send) {
        copy(block_, from, slots[send] + offset, bytes);
      }
      offset += bytes;
    }
  }

  CCOLL_HOST_DEVICE bool is_owner(const TeamEnd& end) const {
    return end.number % block_.threads() == block_.thread();
  }
  CCOLL_HOST_DEVICE std::uint64_t* pushed_flag(const TeamEnd& end) const {
    return flag(program_.channels[end.channel].to, 2 * end.channel);
  }
  CCOLL_HOST_DEVICE std::uint64_t* popped_flag(const TeamEnd& end) const {
    return flag(program_.channels[end.channel].from, 2 * end.channel + 1);
  }
  /// The flag of a block of this block's rank.
  CCOLL_HOST_DEVICE std::uint64_t* done_flag(std::uint32_t block) const {
    return flag(mine_.device, 2 * program_.channel_count + block);
  }

  std::uint64_t* const counts_;  ///< slices that passed each of the block's ends
  const BlockLoans loans_;
  std::byte** const at_;       ///< by cursor, as are the next two
  std::uint64_t* const left_;  ///< bytes left in its part; UINT64_MAX: a slot
  std::uint64_t* const part_;
};

}  // namespace ccoll::device
