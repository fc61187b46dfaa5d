// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The identity of a call, in the bytes that ranks compare: the first words of every slice, and the
/// words that a waiting rank publishes.

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ccoll {

struct Signature {
  std::uint64_t count = 0;  ///< the total, for ragged and coalesced calls; 0 if sizes are private
  /// Combined with the hash of a custom reduction's name, and with that of the sizes of ragged
  /// blocks (unless private) or coalesced buffers. So one word distinguishes them all.
  std::uint32_t root = 0;
  std::uint8_t kind = 0;  ///< a Kind, with or without the flags below, or one of the others
  std::uint8_t type = 0;
  std::uint8_t op = 0;  ///< a ReduceOp, or one of the values below
  std::uint8_t algorithm = 0;
  /// Every slice of every call is compared, so it compares two words, not six fields.
  friend bool operator==(const Signature& a, const Signature& b) {
    return a.count == b.count && a.all_but_count() == b.all_but_count();
  }

 private:
  std::uint64_t all_but_count() const {
    std::uint64_t word = 0;
    std::memcpy(&word, reinterpret_cast<const std::byte*>(this) + sizeof count, sizeof word);
    return word;
  }
};
static_assert(sizeof(Signature) == 2 * sizeof(std::uint64_t));

/// Flags of `kind`: a v-operation; several buffers in one call.
inline constexpr std::uint8_t kRagged = 32;
inline constexpr std::uint8_t kCoalesced = 64;

/// Reductions that are no ReduceOp. A factor may differ between ranks and is not compared.
inline constexpr std::uint8_t kPremultipliedSum = 64;
inline constexpr std::uint8_t kCustom = 65;
inline constexpr std::uint8_t kOrderedCustom = 66;  ///< does not commute

/// The `kind` of a message between two ranks, which uses the other fields in its own way.
inline constexpr std::uint8_t kSendRecv = 255;
/// The `kind` of the calls that make communicators.
inline constexpr std::uint8_t kSplit = 254;
inline constexpr std::uint8_t kSubgroup = 253;
inline constexpr std::uint8_t kMesh = 252;
/// The `kind` of the calls in which ranks set up what their devices share.
inline constexpr std::uint8_t kDeviceWay = 243;
/// The `kind` of the calls in which ranks learn the lengths of byte strings before moving them.
inline constexpr std::uint8_t kBroadcastBytes = 251;
inline constexpr std::uint8_t kAllGatherBytes = 247;
inline constexpr std::uint8_t kGatherBytes = 246;

}  // namespace ccoll
