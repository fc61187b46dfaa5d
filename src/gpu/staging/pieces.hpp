// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Pinned memory that messages of any length pass through, a piece at a time. Each rank of a
/// communicator has two pieces for what is sent to it, and two for what comes from it. A pair's
/// messages come one after the other; only one of them has the pieces at a time, as long as they
/// hold some of it. The message's stream copies between the pieces and the device, in steps that
/// are enqueued behind it (CopySteps).
///
/// Why nobody waits for ever, though messages wait for each other in ways that nobody here knows:
///
/// - The stream of a message that travels has reached it. Its steps get their copies in order, for
///   whatever message. Each copy's data is there before the stream may go on with it. So each copy
///   ends.
/// - One message holds the pieces for what is sent, and its receiver has said that it is clear to
///   send. They come back when the receiver has read them. For that it needs only the pieces for
///   what comes from this rank. These are the same message's, or come back once steps have copied
///   what was there.
///
/// Steps are enqueued when the call is made, and none later, because another thread may then be in
/// CUDA and wait for the stream. They must have room in the stream, so that the caller need not
/// wait for any. So messages that would take too many have longer pieces of their own (PiecePlan).

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

/// The copies that a stream makes of a call's messages while they travel.
class CopySteps {
 public:
  virtual ~CopySteps() = default;
  /// Gives these copies to the next step; addresses on the host are the device's. Returns the
  /// step's number. Fails if no step is left.
  virtual Result<std::uint32_t> order(std::span<const OrderedCopy> copies) = 0;
  /// Whether that step's copies are made.
  virtual bool is_over(std::uint32_t step) const = 0;
};

/// The offset of an address from the alignment of the words that kernels copy.
inline std::uint64_t misalignment(const std::byte* address) {
  return reinterpret_cast<std::uintptr_t>(address) % sizeof(Word16);
}

/// A part of the memory, and where the device sees it.
struct Piece {
  std::byte* here = nullptr;
  std::byte* on_device = nullptr;
};

class Pieces final {
 public:
  enum class Direction : std::uint8_t { out, in };
  /// Spare bytes of a piece, so that data in it can be aligned as on the device.
  static constexpr std::uint64_t kMargin = 256;

  /// The bytes of pieces for so many ranks: `bytes`, if that suffices for 64 KiB each.
  static constexpr std::uint64_t bytes_for(std::uint64_t bytes, std::uint32_t ranks) {
    return kOfRank * ranks * stride_of(bytes, ranks);
  }
  static constexpr std::uint64_t piece_bytes_for(std::uint64_t bytes, std::uint32_t ranks) {
    return stride_of(bytes, ranks) - kMargin;
  }

  /// `memory` has bytes_for() bytes.
  Pieces(Piece memory, std::uint64_t bytes, std::uint32_t ranks)
      : first_(memory), stride_(stride_of(bytes, ranks)), is_taken_(kOfRank / 2 * ranks) {}
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(is_taken_.size() * 2 / kOfRank); }
  std::uint64_t piece_bytes() const { return stride_ - kMargin; }
  /// The distance from one piece to the next.
  std::uint64_t stride() const { return stride_; }
  /// Takes the two of that rank and direction; false if they are taken. `first`: where they begin.
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

/// The two pieces of a message: the communicator's, as long as the message needs them, or its own.
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
  /// A stream has room for so many steps, of three operations each, beside some other calls.
  static constexpr std::uint64_t kMostSteps = 200;
  /// With more messages, their own pieces would have more than half of what the messages carry.
  static constexpr std::uint64_t kMostWithOwn = 40;

  std::uint64_t piece_bytes = 0;
  bool are_own = false;
  std::uint64_t steps = 0;
  std::uint64_t messages = 0;

  static PiecePlan of(std::span<const MemoryRange> lifted, std::span<const MemoryRange> landed,
                      std::uint64_t piece_bytes);
  /// Whether this is better than copying them whole.
  bool pays_off() const { return !are_own || messages <= kMostWithOwn; }
  /// The memory of one message that has own pieces.
  std::uint64_t own_bytes() const { return 2 * (piece_bytes + Pieces::kMargin); }
};

}  // namespace ccoll::device
