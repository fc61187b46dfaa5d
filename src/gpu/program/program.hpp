// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A schedule as the team kernel runs it: a block of threads for each lane of each rank, on the GPU
/// that the rank has. Flat plain data, so that it is copied to each device once and used by any
/// number of calls: what changes from call to call is in a TeamLaunch, or in device memory that the
/// kernel itself advances. Shared by host and device code; knows no schedule and no CUDA.

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

/// A block of a buffer. Window w's slice of it lies w × slice_bytes beyond the first one's; of
/// scratch, which holds one slice, always in the same place.
struct TeamPart {
  std::uint64_t offset = 0;  ///< in bytes, of the first window's slice
  std::uint64_t bytes = 0;   ///< of the whole block
  std::uint32_t buffer = 0;  ///< number among a launch's buffers
  bool moves = true;
};

/// What one lane of one rank sends to one peer. Its flags count slices: those pushed, which the
/// sender's block writes, and those popped, which the receiver's writes. A word lies on the device
/// of who waits for it, and slots on that of who reads them: what crosses from one device to
/// another is written there, which nobody waits for; only what is lent is read across.
struct TeamChannel {
  std::uint64_t slots = 0;       ///< where the ring of slots begins in the receiver's workspace
  std::uint64_t slot_bytes = 0;  ///< 0 where every slice is lent, or comes by words
  std::uint32_t from = 0;        ///< the sender's device, by its number in the team
  std::uint32_t to = 0;          ///< the receiver's
};

/// Where the schedule lets a slice be read instead of in its slot: in one of the sender's buffers.
struct TeamLoan {
  Range parts;                   ///< empty: nowhere
  std::uint32_t buffer = kNone;  ///< number among a launch's buffers, of all these parts
  bool if_separate = false;      ///< only if the sender's input and output are apart
  CCOLL_HOST_DEVICE constexpr bool is_any() const { return !parts.is_empty(); }
};

/// One end of a channel, as a step has it.
struct TeamEnd {
  std::uint32_t channel = 0;
  std::uint32_t number = 0;  ///< of the block's ends: the place of its count
  /// Of a receive: the parts of the sender's memory where the slice lies; empty where it is in a
  /// slot, or comes by words.
  Range lent;
  /// Of either end, whatever else the program lends; nothing by words.
  TeamLoan loan;
  /// Where its slice's words are, of a program by words: counted from the beginning of a set, on
  /// the receiver's device.
  std::uint32_t words = 0;
};

struct TeamStep {
  std::uint64_t windows = 0;      ///< in those from this one on there is nothing to work on
  Range receives;                 ///< ends, in order of rank
  Range sends;                    ///< ends
  Range local;                    ///< parts
  Range store;                    ///< parts
  std::uint32_t own_place = 0;    ///< own data's among the sources
  std::uint32_t after = kNone;    ///< the block that must have finished the same window's …
  std::uint32_t after_step = 0;   ///< … step
  std::uint32_t after_steps = 0;  ///< of that block
  std::uint32_t divisor = 1;
  bool lends = false;  ///< receivers read what it sends where it lies
  bool whole = true;   ///< no source and no destination is of several parts

  // Sources are in order of rank.
  CCOLL_HOST_DEVICE constexpr bool has_local() const { return !local.is_empty(); }
  CCOLL_HOST_DEVICE constexpr bool has_store() const { return !store.is_empty(); }
  CCOLL_HOST_DEVICE constexpr std::uint32_t source_count() const {
    return receives.size() + (has_local() ? 1 : 0);
  }
  /// The end by which a source comes that is not the rank's own.
  CCOLL_HOST_DEVICE constexpr std::uint32_t receive_of(std::uint32_t source) const {
    return receives.begin + source - (has_local() && source > own_place ? 1 : 0);
  }
};

/// What one block of threads does.
struct TeamBlock {
  std::uint32_t rank = 0;
  std::uint32_t lane = 0;
  Range steps;
  std::uint32_t stripe = 0;
  std::uint32_t ends = 0;
  std::uint32_t number = 0;  ///< among those of all devices
  std::uint32_t device = 0;  ///< its number in the team
  bool awaited = false;      ///< other blocks' steps, of its rank, come after some of its own
};

/// The lists are where the pointers say, in device memory or, for tests, the host's. A device's has
/// its own blocks, and all of everything else.
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
  std::uint32_t workspace = 0;  ///< number among a launch's buffers of device 0's
  std::uint64_t windows = 0;
  std::uint64_t slice_bytes = 0;
  std::uint64_t span = 1;                     ///< no count of a call is greater
  std::uint32_t widest = 0;                   ///< cursors of the step that has most
  std::uint32_t most_ends = 0;                ///< of the block that has most
  bool by_words = false;                      ///< all slices are tiny; each block runs one window
  std::uint32_t useful_threads = UINT32_MAX;  ///< of a block; others have nothing to do
  /// Nothing is `lent`, but slices that ends have as loans are read where they lie if that is in a
  /// workspace, or in a caller's buffer that its rank lends in the call (TeamLoans).
  bool lends_by_call = false;

  /// Words of memory that a block's threads share: the gate's, the ticket, counts, loans and
  /// cursors.
  constexpr std::uint32_t shared_words() const {
    return kStopGateWords + kTicketWords + most_ends + loan_words() + 3 * widest;
  }
  CCOLL_HOST_DEVICE constexpr std::uint32_t loan_words() const {
    return lends_by_call ? kEndLoanWords * most_ends : 0;
  }
  static constexpr std::uint32_t kEndLoanWords = 3;
  static constexpr std::uint32_t kTicketWords = 2;
  /// Of a part in a window.
  CCOLL_HOST_DEVICE constexpr std::uint64_t bytes_of(const TeamPart& part,
                                                     std::uint64_t window) const {
    const std::uint64_t first = window * slice_bytes;
    if (part.bytes <= first) return 0;
    const std::uint64_t rest = part.bytes - first;
    return rest < slice_bytes ? rest : slice_bytes;
  }
  /// Of what it has then, in its buffer.
  CCOLL_HOST_DEVICE constexpr std::uint64_t offset_of(const TeamPart& part,
                                                      std::uint64_t window) const {
    return part.offset + (part.moves ? window * slice_bytes : 0);
  }
  /// Of one that has the blocks of all devices: so many flags has each.
  constexpr std::uint32_t flag_count() const { return 2 * channel_count + block_count; }
};

/// Words from one flag to the next: each has a sector of memory to itself, in which a GPU's caches
/// reckon.
inline constexpr std::uint32_t kFlagWords = 4;

/// What a rank's launch says of the buffers that it lends in the call, where its program lends by
/// call: said_of_loan() of the input and, in the upper half, of the output; and where in these
/// memories they begin. Each of its channels has these words at the receiver, beside the flag of
/// slices pushed, and they are there before that is: so they are of the same call, and nothing has
/// to be reset.
struct TeamLoans {
  std::uint64_t said = 0;
  std::uint64_t begins[2] = {};
  /// What the own host has mapped of the others: kLoanPlaces of each device.
  const LoanPlace* places = nullptr;

  CCOLL_HOST_DEVICE static constexpr std::uint32_t half(std::uint64_t said, std::uint32_t buffer) {
    return static_cast<std::uint32_t>(said >> (buffer % 2) * 32);
  }
  static constexpr std::uint64_t of_buffer(std::uint32_t buffer, std::uint32_t said) {
    return std::uint64_t{said} << (buffer % 2) * 32;
  }
};
static_assert(kFlagWords >= 1 + TeamProgram::kEndLoanWords);

/// What a block begins a call with: a number that no flag of an earlier call is above, and how many
/// calls there were.
struct TeamTicket {
  std::uint64_t base = 0;
  std::uint64_t calls = 0;
};

/// Ids are far below.
inline constexpr std::uint64_t kByCopies = std::uint64_t{1} << 63;

/// By which calls of a team have it one at a time, and find out where they would not.
struct TeamClaim {
  /// 0: none; else twice a call's id, plus 1 if another had it before; or of a call by copies
  /// (claim.hpp) its id and kByCopies.
  std::uint64_t owner = 0;
  std::uint64_t apart[kFlagWords - 1] = {};
  std::uint64_t gone = 0;  ///< of the owner's blocks
};

/// What a team's calls leave to the next, in device memory that is zeroed once. Every call of
/// whatever program claims it and then advances all tickets, each by one block and before anything
/// else, so that between calls they are the same, also after an abort: nothing needs to be reset.
/// So it is on every device of a team, whose calls all have a part on each.
///
/// Where not one process launches all parts of a call, one device may have ended it, and begin the
/// next, while others are still about it. Each then tells all that it has, by the base of the next
/// call in a flag there, and no block touches anything of others before all have.
struct TeamState {
  TeamClaim* claim = nullptr;                   ///< on the launch's device, as are the tickets
  TeamTicket* tickets = nullptr;                ///< ticket_count of them
  std::uint64_t* flags[kMostTeamDevices] = {};  ///< by device
  /// By device, kTeamWords of each (tiny_words.hpp); null where no program goes by words.
  std::uint64_t* words[kMostTeamDevices] = {};
  std::uint32_t ticket_count = 0;  ///< at least the program's blocks
  /// How many devices have to have ended the call before; 0: they have.
  std::uint32_t awaited_devices = 0;
  std::uint32_t ended = 0;  ///< the first of a device's flags by which they tell that, by device
};

enum class TeamEnding : std::uint64_t { none, finished, aborted };

/// What a block tells the host while it runs, in memory that both see.
struct TeamProgress {
  std::uint64_t call = 0;    ///< from 1
  std::uint64_t steps = 0;   ///< finished in it
  std::uint64_t ending = 0;  ///< TeamEnding
};

/// The most ranks that a team has: their buffers' addresses travel in the kernel's arguments.
inline constexpr std::uint32_t kMostTeamRanks = 64;

/// One device's part of a call. `buffers`: rank r's input is number 2r and its output 2r + 1; then
/// each device's workspace.
struct TeamLaunch {
  TeamProgram program;
  TeamState state;
  std::byte* buffers[2 * kMostTeamRanks + kMostTeamDevices] = {};
  TeamLoans loans;
  /// Not 0. Of calls that may run at the same time each has another; a graph's keep theirs.
  std::uint64_t id = 1;
  std::uint64_t* abort = nullptr;  ///< something else than 0 there ends calls
  std::uint64_t* busy = nullptr;   ///< not 0: why, a call has found another one under way
  /// Looks at a flag between two looks at the abort word, which lies in the host's memory.
  std::uint32_t spins_per_look = 1000;
  TeamProgress* progress = nullptr;  ///< by block's number

  CCOLL_HOST_DEVICE std::byte* address_of(const TeamPart& part, std::uint64_t window) const {
    return buffers[part.buffer] + program.offset_of(part, window);
  }
};

}  // namespace ccoll::device
