// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Pinned memory that messages of any length pass through, a piece at a time: for each rank of a
/// communicator two pieces of what is sent to it, and two of what comes from it. A pair's messages
/// come one after the other, and only one of them has any at a time, for as long as something of it
/// is there. What is copied between the pieces and the device the message's stream copies, in steps
/// that stand behind it (CopySteps).
///
/// Why nobody waits for ever, though messages wait for each other in ways that nobody here knows:
///
/// - The stream of a message that travels has come to it. Its steps are given what to copy in their
///   order, whatever message that is of, and each is there before the stream may go on with it: so
///   each ends.
/// - Pieces of what is sent are those of one message, which its receiver has granted. When it has
///   read them they come back. For that it needs those of what comes from this rank, and no others:
///   they are the same message's, or come back once steps have copied what was there before.
///
/// Steps are put into the stream when the call is made, and none later: another thread may be in
/// CUDA then, and wait for the stream. So that they have room there, and the caller need not wait
/// for any, messages that would take too many have longer pieces of their own (PiecePlan).

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/result.hpp"
#include "gpu/way.hpp"
#include "kernels/device/ordered_copies.hpp"

namespace ccoll::device {

/// What a stream copies of a call's messages while they travel.
class CopySteps {
 public:
  virtual ~CopySteps() = default;
  /// Has the next step make these, of which addresses on the host are the device's: its number.
  /// Fails where no step is left.
  virtual Result<std::uint32_t> order(std::span<const OrderedCopy> copies) = 0;
  /// Whether that step has been made.
  virtual bool is_over(std::uint32_t step) const = 0;
};

/// By how much it is not aligned for the words that kernels copy.
inline std::uint64_t misalignment(const std::byte* address) {
  return reinterpret_cast<std::uintptr_t>(address) % sizeof(Word16);
}

/// Some of the memory, and where the device sees it.
struct Piece {
  std::byte* here = nullptr;
  std::byte* on_device = nullptr;
};

class Pieces final {
 public:
  enum class Direction : std::uint8_t { out, in };
  /// Of a piece's place: what lies in it is aligned as on the device.
  static constexpr std::uint64_t kMargin = 256;

  /// What pieces for so many ranks take: `bytes`, if that suffices for 64 KiB each.
  static constexpr std::uint64_t bytes_for(std::uint64_t bytes, std::uint32_t ranks) {
    return kOfRank * ranks * stride_of(bytes, ranks);
  }
  static constexpr std::uint64_t piece_bytes_for(std::uint64_t bytes, std::uint32_t ranks) {
    return stride_of(bytes, ranks) - kMargin;
  }

  /// `memory` has bytes_for() them.
  Pieces(Piece memory, std::uint64_t bytes, std::uint32_t ranks)
      : first_(memory), stride_(stride_of(bytes, ranks)), is_taken_(kOfRank / 2 * ranks) {}
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(is_taken_.size() * 2 / kOfRank); }
  std::uint64_t piece_bytes() const { return stride_ - kMargin; }
  /// From where one begins to where the next does.
  std::uint64_t stride() const { return stride_; }
  /// Whether the two of that rank and way are the caller's from now on; `first`: where they begin.
  bool take(Direction direction, std::uint32_t rank, Piece& first) {
    const auto number = number_of(direction, rank);
    if (is_taken_[number].exchange(true, std::memory_order_acquire)) return false;
    const auto at = 2 * number * stride_;
    first = {first_.here + at, first_.on_device + at};
    return true;
  }
  void give_back(Direction direction, std::uint32_t rank) noexcept {
    is_taken_[number_of(direction, rank)].store(false, std::memory_order_release);
  }

 private:
  static constexpr std::uint64_t kOfRank = 4, kLeast = 64 << 10, kMost = 2 << 20;

  static constexpr std::uint64_t stride_of(std::uint64_t bytes, std::uint32_t ranks) {
    const auto share = std::bit_floor(std::max<std::uint64_t>(1, bytes / (kOfRank * ranks)));
    return std::clamp(share, kLeast, kMost);
  }
  static std::size_t number_of(Direction direction, std::uint32_t rank) {
    return 2 * std::size_t{rank} + (direction == Direction::in ? 1 : 0);
  }

  const Piece first_;
  const std::uint64_t stride_;
  std::vector<std::atomic<bool>> is_taken_;  ///< of two pieces each
};

/// The two pieces of a message: of the communicator's, for as long as it needs them, or its own.
class PieceRoom {
 public:
  explicit PieceRoom(Pieces& pieces) : pieces_(&pieces), piece_bytes_(pieces.piece_bytes()) {}
  PieceRoom(Piece own, std::uint64_t piece_bytes) : own_(own), piece_bytes_(piece_bytes) {}

  std::uint64_t piece_bytes() const { return piece_bytes_; }
  std::uint64_t stride() const { return piece_bytes_ + Pieces::kMargin; }
  bool take(Pieces::Direction direction, std::uint32_t rank, Piece& first) const {
    if (pieces_ != nullptr) return pieces_->take(direction, rank, first);
    first = own_;
    return true;
  }
  void give_back(Pieces::Direction direction, std::uint32_t rank) const noexcept {
    if (pieces_ != nullptr) pieces_->give_back(direction, rank);
  }

 private:
  Pieces* pieces_ = nullptr;
  Piece own_;
  std::uint64_t piece_bytes_;
};

/// How long the pieces of a call's messages are, and how many steps they take.
struct PiecePlan {
  /// A stream has room for so many, three operations each, beside some other calls.
  static constexpr std::uint64_t kMostSteps = 200;
  /// More messages would have own pieces of more than half of what they carry.
  static constexpr std::uint64_t kMostWithOwn = 40;

  std::uint64_t piece_bytes = 0;
  bool are_own = false;
  std::uint64_t steps = 0;
  std::uint64_t messages = 0;

  static PiecePlan of(std::span<const MemoryRange> lifted, std::span<const MemoryRange> landed,
                      std::uint64_t piece_bytes);
  /// Whether this is better than to copy them as a whole.
  bool pays_off() const { return !are_own || messages <= kMostWithOwn; }
  /// Of one message that has own pieces.
  std::uint64_t own_bytes() const { return 2 * (piece_bytes + Pieces::kMargin); }
};

}  // namespace ccoll::device
