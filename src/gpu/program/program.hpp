// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A schedule as the team kernel runs it: a block of threads for each lane of each rank, on the GPU
/// that the rank has. It is flat plain data, so that it is copied to each device once and used by
/// any number of calls. What changes from call to call is in a TeamLaunch, or in device memory that
/// the kernel itself advances. Shared by host and device code; knows no schedule and no CUDA.

#include <cstddef>
#include <cstdint>

#include "ccoll/types.hpp"
#include "core/host_device.hpp"
#include "gpu/program/stop_gate.hpp"
#include "gpu/program/tiny_words.hpp"
#include "kernels/device/loans.hpp"

namespace ccoll::device {

inline constexpr std::uint32_t kNone = UINT32_MAX;

/// The most devices that a team has, as many as one machine's switches join.
inline constexpr std::uint32_t kMostTeamDevices = 16;

/// Part of one of a program's lists.
struct Range {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  CCOLL_HOST_DEVICE constexpr bool is_empty() const { return begin == end; }
  CCOLL_HOST_DEVICE constexpr std::uint32_t size() const { return end - begin; }
};

/// A block of a buffer. The slice of window w lies w × slice_bytes beyond the first. In scratch,
/// which holds one slice, the slices of all windows lie in the same place.
struct TeamPart {
  std::uint64_t offset = 0;  ///< in bytes, of the first window's slice
  std::uint64_t bytes = 0;   ///< of the whole block
  std::uint32_t buffer = 0;  ///< number among a launch's buffers
  bool moves = true;
};

/// The slices that one lane of one rank sends to one peer. Two flags count them: pushed, which the
/// sender's block writes, and popped, which the receiver's writes. A flag lies on the device that
/// waits for it, a slot on its reader's device. So data is written across a link, and nobody polls
/// across it; only lent slices are read across.
struct TeamChannel {
  std::uint64_t slots = 0;       ///< where the ring of slots begins in the receiver's workspace
  std::uint64_t slot_bytes = 0;  ///< 0 where every slice is lent, or comes by words
  std::uint32_t from = 0;        ///< the sender's device, by its number in the team
  std::uint32_t to = 0;          ///< the receiver's
};

/// Where the schedule lets a slice be read instead of in its slot: in a buffer of the sender's.
struct TeamLoan {
  Range parts;                   ///< empty: nowhere
  std::uint32_t buffer = kNone;  ///< number among a launch's buffers, for all these parts
  bool if_separate = false;      ///< only if the sender's input and output are apart
  CCOLL_HOST_DEVICE constexpr bool is_any() const { return !parts.is_empty(); }
};

/// One end of a channel, as a step has it.
struct TeamEnd {
  std::uint32_t channel = 0;
  std::uint32_t number = 0;  ///< the end's index in its block, where its count is kept
  /// In a receive: the parts of the sender's memory that hold the slice; empty if the slice is in a
  /// slot, or comes by words.
  Range lent;
  /// Set at both ends, whether or not the program lends; empty in a program by words.
  TeamLoan loan;
  /// In a program by words: where the slice's words begin, counted from the start of a set, on the
  /// receiver's device.
  std::uint32_t words = 0;
};

struct TeamStep {
  std::uint64_t windows = 0;      ///< windows from this number on have no work
  Range receives;                 ///< ends, in order of rank
  Range sends;                    ///< ends
  Range local;                    ///< parts
  Range store;                    ///< parts
  std::uint32_t own_place = 0;    ///< place of the rank's own data among the sources
  std::uint32_t after = kNone;    ///< the block that must have finished the same window's …
  std::uint32_t after_step = 0;   ///< … step
  std::uint32_t after_steps = 0;  ///< steps of that block
  std::uint32_t divisor = 1;
  bool lends = false;  ///< receivers read what it sends where it lies
  bool whole = true;   ///< no source and no destination has several parts

  // Sources are in order of rank.
  CCOLL_HOST_DEVICE constexpr bool has_local() const { return !local.is_empty(); }
  CCOLL_HOST_DEVICE constexpr bool has_store() const { return !store.is_empty(); }
  CCOLL_HOST_DEVICE constexpr std::uint32_t source_count() const {
    return receives.size() + (has_local() ? 1 : 0);
  }
  /// The receiving end of a source other than the rank's own data.
  CCOLL_HOST_DEVICE constexpr std::uint32_t receive_of(std::uint32_t source) const {
    return receives.begin + source - (has_local() && source > own_place ? 1 : 0);
  }
};

/// The work of one block of threads.
struct TeamBlock {
  std::uint32_t rank = 0;
  std::uint32_t lane = 0;
  Range steps;
  std::uint32_t stripe = 0;
  std::uint32_t ends = 0;
  std::uint32_t number = 0;  ///< its index among the blocks of all devices
  std::uint32_t device = 0;  ///< its number in the team
  bool awaited = false;      ///< steps of other blocks of its rank come after some of its own
};

/// The pointers refer to device memory or, in tests, to the host's. Each device has its own blocks,
/// and all of the other lists.
struct TeamProgram {
  const TeamBlock* blocks = nullptr;
  const TeamStep* steps = nullptr;
  const TeamEnd* ends = nullptr;
  const TeamPart* parts = nullptr;
  const TeamChannel* channels = nullptr;
  std::uint32_t block_count = 0;
  std::uint32_t channel_count = 0;
  std::uint32_t slots = 0;  ///< of each channel that has any
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  std::uint32_t stripes = 1;
  std::uint32_t workspace = 0;  ///< device 0's workspace: its number among a launch's buffers
  std::uint64_t windows = 0;
  std::uint64_t slice_bytes = 0;
  std::uint64_t span = 1;                     ///< upper bound on every count in a call
  std::uint32_t widest = 0;                   ///< the most cursors that any step has
  std::uint32_t most_ends = 0;                ///< the most ends that any block has
  bool by_words = false;                      ///< all slices are tiny; each block runs one window
  std::uint32_t useful_threads = UINT32_MAX;  ///< per block; further threads have no work
  /// Nothing is `lent`. A slice that has a loan is read in place if that is in a workspace, or in a
  /// caller's buffer that its rank lends in the call (TeamLoans).
  bool lends_by_call = false;

  /// Words of memory that a block's threads share: for the gate, the ticket, counts, loans and
  /// cursors.
  constexpr std::uint32_t shared_words() const {
    return kStopGateWords + kTicketWords + most_ends + loan_words() + 3 * widest;
  }
  CCOLL_HOST_DEVICE constexpr std::uint32_t loan_words() const {
    return lends_by_call ? kEndLoanWords * most_ends : 0;
  }
  static constexpr std::uint32_t kEndLoanWords = 3;
  static constexpr std::uint32_t kTicketWords = 2;
  /// The part's bytes in a window.
  CCOLL_HOST_DEVICE constexpr std::uint64_t bytes_of(const TeamPart& part,
                                                     std::uint64_t window) const {
    const std::uint64_t first = window * slice_bytes;
    if (part.bytes <= first) return 0;
    const std::uint64_t rest = part.bytes - first;
    return rest < slice_bytes ? rest : slice_bytes;
  }
  /// Where these bytes begin in the part's buffer.
  CCOLL_HOST_DEVICE constexpr std::uint64_t offset_of(const TeamPart& part,
                                                      std::uint64_t window) const {
    return part.offset + (part.moves ? window * slice_bytes : 0);
  }
  /// The flags of each device, if this program has the blocks of all devices.
  constexpr std::uint32_t flag_count() const { return 2 * channel_count + block_count; }
};

/// Words from one flag to the next: each flag has a sector to itself, the unit in which a GPU's
/// caches work.
inline constexpr std::uint32_t kFlagWords = 4;

/// If the program lends by call: the buffers that a rank's launch lends, and where they begin in
/// their memories. `said` is said_of_loan() of the input and, in the upper half, of the output.
/// Each of the rank's channels has these words at the receiver, beside the flag of slices pushed,
/// and they are written before that flag. So they belong to the same call, and nothing has to be
/// reset.
struct TeamLoans {
  std::uint64_t said = 0;
  std::uint64_t begins[2] = {};
  /// This host's mappings of the others' memories: kLoanPlaces of each device.
  const LoanPlace* places = nullptr;

  CCOLL_HOST_DEVICE static constexpr std::uint32_t half(std::uint64_t said, std::uint32_t buffer) {
    return static_cast<std::uint32_t>(said >> (buffer % 2) * 32);
  }
  static constexpr std::uint64_t of_buffer(std::uint32_t buffer, std::uint32_t said) {
    return std::uint64_t{said} << (buffer % 2) * 32;
  }
};
static_assert(kFlagWords >= 1 + TeamProgram::kEndLoanWords);

/// The state in which a block begins a call: a number that no flag of an earlier call exceeds, and
/// the number of calls so far.
struct TeamTicket {
  std::uint64_t base = 0;
  std::uint64_t calls = 0;
};

/// Marks an owner as a call by copies. Ids are far below it.
inline constexpr std::uint64_t kByCopies = std::uint64_t{1} << 63;

/// Gives a team to one call at a time, and detects calls that overlap.
struct TeamClaim {
  /// 0: none; else twice a call's id, plus 1 if another call had it before. For a call by copies
  /// (claim.hpp): its id and kByCopies.
  std::uint64_t owner = 0;
  std::uint64_t apart[kFlagWords - 1] = {};
  std::uint64_t gone = 0;  ///< how many of the owner's blocks have ended
};

/// The state that a team's calls leave to the next, in device memory that is zeroed once. Every
/// call of any program claims it. Before anything else, its blocks advance all tickets, so that all
/// tickets are equal between calls, even after an abort: nothing needs to be reset. Each device of
/// a team has such a state, since every call has a part on each.
///
/// If several processes launch a call's parts, one device may have ended the call and begin the
/// next while others still run it. Each device then reports to all others that it has ended, by a
/// flag there that holds the next call's base. No block touches others' memory before all have
/// reported.
struct TeamState {
  TeamClaim* claim = nullptr;                   ///< on the launch's device, as are the tickets
  TeamTicket* tickets = nullptr;                ///< ticket_count of them
  std::uint64_t* flags[kMostTeamDevices] = {};  ///< by device
  /// By device, kTeamWords each (tiny_words.hpp); null if no program goes by words.
  std::uint64_t* words[kMostTeamDevices] = {};
  std::uint32_t ticket_count = 0;  ///< at least the program's blocks
  /// How many devices must report that the call before has ended; 0: all have ended it.
  std::uint32_t awaited_devices = 0;
  std::uint32_t ended = 0;  ///< the first of a device's flags for these reports, one per device
};

enum class TeamEnding : std::uint64_t { none, finished, aborted };

/// A block's progress, which it writes while it runs, to memory that the host sees, too.
struct TeamProgress {
  std::uint64_t call = 0;    ///< from 1
  std::uint64_t steps = 0;   ///< finished in it
  std::uint64_t ending = 0;  ///< TeamEnding
};

/// The most ranks of a team: the addresses of their buffers travel in the kernel's arguments.
inline constexpr std::uint32_t kMostTeamRanks = 64;

/// One device's part of a call. `buffers`: rank r's input is number 2r and its output 2r + 1; each
/// device's workspace follows.
struct TeamLaunch {
  TeamProgram program;
  TeamState state;
  std::byte* buffers[2 * kMostTeamRanks + kMostTeamDevices] = {};
  TeamLoans loans;
  /// Not 0. Calls that may run at the same time have different ids; a graph's calls keep theirs.
  std::uint64_t id = 1;
  std::uint64_t* abort = nullptr;  ///< any value but 0 there ends calls
  std::uint64_t* busy = nullptr;   ///< not 0: calls end because one found another in flight
  /// Polls of a flag between two polls of the abort word, which lies in host memory.
  std::uint32_t spins_per_look = 1000;
  TeamProgress* progress = nullptr;  ///< by the block's number

  CCOLL_HOST_DEVICE std::byte* address_of(const TeamPart& part, std::uint64_t window) const {
    return buffers[part.buffer] + program.offset_of(part, window);
  }
};

}  // namespace ccoll::device
