// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Slots for slices that one rank sends to several others: written once, read by each through its
/// own link, whose line says which slot. One such area per rank and communicator, handed over with
/// every link.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "system/segment.hpp"
#include "transport/shm/ring.hpp"
#include "transport/slot_budget.hpp"

namespace ccoll::shm {

/// The sender's. Used by the holder of the communicator's owner flag.
class MulticastSlots {
 public:
  static constexpr std::size_t kSlots = 16;
  static constexpr std::size_t kBytes = kSlots * kSlotBytes;

  /// Null where there is no memory for it: then slices are written for each receiver.
  static std::shared_ptr<MulticastSlots> make(SlotBudget& budget);

  /// To be handed over with a link; null once it is closed.
  const std::shared_ptr<const FileDescriptor>& file() const { return file_; }
  /// It goes with no link any more but those that have it. By who alone asks for file().
  void close_file() { file_.reset(); }
  /// A slot that nobody reads, the same until it is given to readers; null if there is none.
  std::byte* room();
  /// Which slot this is; kSlots for memory elsewhere.
  std::uint32_t number_of(const std::byte* room) const;
  /// By slot, how many links' receivers are yet to read it: the links' RingWriters count.
  std::uint32_t* readers() { return readers_.data(); }

 private:
  MulticastSlots(std::shared_ptr<Segment> memory, SlotBudget::Share share)
      : memory_(std::move(memory)),
        file_(std::make_shared<const FileDescriptor>(memory_->take_file())),
        share_(std::move(share)) {}

  const std::shared_ptr<Segment> memory_;
  std::shared_ptr<const FileDescriptor> file_;
  const SlotBudget::Share share_;
  std::array<std::uint32_t, kSlots> readers_{};
  std::uint32_t next_ = 0;  ///< they take turns, as the slots of a ring do
};

}  // namespace ccoll::shm
