// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Slots for slices that one rank sends to several others: written once and read by each through
/// its own link, whose line names the slot. There is one such area per rank and communicator,
/// handed over with every link.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "system/segment.hpp"
#include "transport/shm/ring_writer.hpp"
#include "transport/slot_budget.hpp"

namespace ccoll::shm {

/// The sender's side, for the links' user alone.
class MulticastSlots {
 public:
  static constexpr std::size_t kSlots = 16;
  static constexpr std::size_t kBytes = kSlots * kSlotBytes;

  /// Null if there is no memory for it: then slices are written for each receiver.
  static std::shared_ptr<MulticastSlots> make(SlotBudget& budget);

  /// The file to hand over with a link; null once closed.
  const std::shared_ptr<const FileDescriptor>& file() const { return file_; }
  /// Only links that have it keep using it. Call on the thread that asks for file().
  void close_file() { file_.reset(); }
  /// A slot that nobody reads; stays the same until it is given to readers. Null if there is none.
  std::byte* room();
  /// The number of this slot; kSlots for memory elsewhere.
  std::uint32_t number_of(const std::byte* room) const;
  /// By slot, the number of links whose receivers have yet to read it; the RingWriters count.
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
  std::uint32_t next_ = 0;  ///< slots take turns, as in a ring
};

}  // namespace ccoll::shm
