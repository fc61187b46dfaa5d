// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The words that carry tiny slices: 4 bytes of data and, above them, 4 that name the call. The
/// sender writes them on the receiver's device; the receiver polls them until all are of its call.
/// This is one way across, without a barrier, a fence, or a flag beside the data.
///
/// Why that is right:
/// - **A word is whole.** It is one relaxed access of 8 bytes at system scope. PTX's memory model
///   covers scalar accesses of at most 8 bytes, and treats a vector access as several, in no order
///   (PTX ISA, "Memory Operations on Vector Data Types"). Accesses of type .b128 exist on sm_70 and
///   newer, from version 8.3 on and at system scope from 8.4 on, but that section still says the
///   same. So there are no words of 16 bytes, with 12 of data.
/// - **It orders only itself.** It carries its own data; no other memory is read because of it.
///   Flags must order two lanes of a rank that share memory, and lowering ensures that.
/// - **It is not written too early.** Each slice of a call has its own words, which its only sender
///   writes once. A call's words are written when all blocks of the call before have ended on all
///   devices. Streams ensure that or, where several processes launch, each launch
///   (TeamState::awaited_devices). So nobody has to report that a word has been read.
/// - **It is never of another call.** A word holds 32 bits of its call's number, which repeats
///   after 2^32 calls; no word gets that old. Two sets of words take turns of kTinyWords calls.
///   Each call, before anything else, writes one word of the set that is not in use, so all of them
///   are rewritten before that set's next turn. So a word that a call polls is from that call, or
///   from one of the 2 × kTinyWords before it. While there have been fewer calls, it may never have
///   been written. Aborted calls write their word, too, even if they are aborted before they begin,
///   because they are counted. The memory serves as nothing else at any time.
/// - **It is of the same call on all devices.** Each device counts the calls by itself, and has a
///   part in each. In a team of one process all parts are launched or none, or the team fails for
///   good. In a team of several processes a device may lack a call, or run others: its rank's
///   launch has failed, it is killed, or graphs go on after an abort. Before that matters, the
///   abort word is stored, which such ranks never reset: nobody takes what a kernel then computes
///   for a result. Otherwise the other parts wait for the lacking part's words until it is stored.

#include <cstdint>

#include "core/host_device.hpp"

namespace ccoll::device {

/// The most bytes for which words carry all of a call's slices from one lane to one peer. An
/// estimate, not measured.
inline constexpr std::uint64_t kTinyBytes = 4096;

/// The words of one set; a power of two.
inline constexpr std::uint64_t kTinyWords = 1 << 17;
/// The words of both sets, which each device has.
inline constexpr std::uint64_t kTeamWords = 2 * kTinyWords;

/// Where the set of a call begins. Calls are counted from 1.
CCOLL_HOST_DEVICE constexpr std::uint64_t tiny_set(std::uint64_t call) {
  return call / kTinyWords % 2 * kTinyWords;
}

/// The word that the call rewrites so that none grows old.
CCOLL_HOST_DEVICE constexpr std::uint64_t aged_tiny_word(std::uint64_t call) {
  return tiny_set(call + kTinyWords) + call % kTinyWords;
}

CCOLL_HOST_DEVICE constexpr std::uint64_t tiny_word(std::uint64_t call, std::uint32_t data) {
  return call << 32 | data;
}

CCOLL_HOST_DEVICE constexpr bool is_of_call(std::uint64_t word, std::uint64_t call) {
  return word >> 32 == (call & UINT32_MAX);
}

/// The bytes of a slice that one thread handles at a time: two words.
inline constexpr std::uint64_t kTinyUnit = 8;

/// The words of a slice of so many bytes.
CCOLL_HOST_DEVICE constexpr std::uint64_t tiny_words_of(std::uint64_t bytes) {
  return (bytes + kTinyUnit - 1) / kTinyUnit * 2;
}

}  // namespace ccoll::device
