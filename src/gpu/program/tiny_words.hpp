// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The words by which tiny slices travel: 4 bytes of data and, above them, 4 that say of which call
/// they are. Who sends writes them on the receiver's device, and who receives looks at them until
/// all are of its call: one way across, without a barrier, a fence, or a flag beside the data.
///
/// Why that is right:
/// - **A word is whole.** It is one relaxed access of 8 bytes at system scope. PTX's memory model
///   speaks of scalar accesses of at most 8 bytes, and makes of one of a vector several, in no
///   order (PTX ISA, "Memory Operations on Vector Data Types"). It has accesses of type .b128 on
///   sm_70 and newer, from version 8.3 on and at system scope from 8.4 on, but what that section
///   says has stayed. So no word of 16 bytes, with 12 of data.
/// - **It orders nothing but itself.** What it carries is in it; no other memory is read because of
///   it. Two lanes of a rank that have memory in common must be ordered by flags, and lowering sees
///   to that.
/// - **It is not written too early.** Each of a call's slices has words of its own, which its only
///   sender writes once. Those of another call are written when all blocks of the one before have
///   ended on all devices, which streams see to, or where several processes launch, each launch
///   (TeamState::awaited_devices): nobody has to tell that a word has been read.
/// - **It is never of another call.** A call's number has 32 bits there, which are again the same
///   after 2^32 calls. By then no word is as old. There are two sets of words, which take turns of
///   kTinyWords calls, and each call, before anything else, writes one word of the set that is not
///   in use, so that by its next turn all of that have been. So a word that a call may look at is
///   from it, or was written by one of the 2 × kTinyWords before it, or never, while calls are not
///   as many. That is done also by calls that are aborted, even before they begin, as they are
///   counted; and words are nothing else than that at any time.
/// - **It is of the same call on all devices.** Each counts the calls by itself, and has a part in
///   each. Of a team of one process all parts are launched or none, or it fails for good. Of
///   several processes one may lack a call, or have others meanwhile, when its rank's launch has
///   failed, it is killed, or graphs go on behind an abort. Before that makes any difference the
///   abort word is stored, which such ranks never take back, so whatever a kernel makes of it then
///   nobody takes for whole; or the rest waits for the lacking part's words, until it is stored.

#include <cstdint>

#include "core/host_device.hpp"

namespace ccoll::device {

/// The most that all of a call's slices from one lane to one peer have together where words carry
/// them. An estimate, which nobody has measured.
inline constexpr std::uint64_t kTinyBytes = 4096;

/// Of one set; a power of two.
inline constexpr std::uint64_t kTinyWords = 1 << 17;
/// Of both sets, which each device has.
inline constexpr std::uint64_t kTeamWords = 2 * kTinyWords;

/// Where the set begins that a call uses. Calls are counted from 1.
CCOLL_HOST_DEVICE constexpr std::uint64_t tiny_set(std::uint64_t call) {
  return call / kTinyWords % 2 * kTinyWords;
}

/// The word that it writes so that none grows old.
CCOLL_HOST_DEVICE constexpr std::uint64_t aged_tiny_word(std::uint64_t call) {
  return tiny_set(call + kTinyWords) + call % kTinyWords;
}

CCOLL_HOST_DEVICE constexpr std::uint64_t tiny_word(std::uint64_t call, std::uint32_t data) {
  return call << 32 | data;
}

CCOLL_HOST_DEVICE constexpr bool is_of_call(std::uint64_t word, std::uint64_t call) {
  return word >> 32 == (call & UINT32_MAX);
}

/// Bytes of a slice that one thread makes at a time: two words.
inline constexpr std::uint64_t kTinyUnit = 8;

/// What a slice of so many bytes takes.
CCOLL_HOST_DEVICE constexpr std::uint64_t tiny_words_of(std::uint64_t bytes) {
  return (bytes + kTinyUnit - 1) / kTinyUnit * 2;
}

}  // namespace ccoll::device
