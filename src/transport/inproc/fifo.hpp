// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The memory between the two ends of an inproc link: a bounded ring of slices with one writer and
/// one reader.

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "transport/link.hpp"
#include "transport/waiter.hpp"

namespace ccoll::inproc {

/// The state of a lent slice.
enum class Loan : std::uint32_t { offered, reading, ended };

struct Slot {
  SliceHeader header;               // published by Fifo::head
  const std::byte* data = nullptr;  // published by Fifo::head
  std::vector<std::byte> copy;      // owner: the writer while the slot is empty
  /// Transitions: offered → reading by the reader's begin_read, offered → ended by the owner's
  /// revoke, reading → ended by the reader's end_read, which also publishes that it is done.
  std::atomic<Loan> loan{Loan::ended};
};

/// `head` and `tail` count slices pushed and popped. They are seq_cst because each is also the news
/// in the protocol of Waiter::prepare.
struct Fifo {
  static constexpr std::size_t kSlots = 2 * kLinkSlots;

  std::array<Slot, kSlots> slots;
  alignas(64) std::atomic<std::uint64_t> head{0};  // written by the sender: publishes slots[head-1]
  alignas(64) std::atomic<std::uint64_t> tail{
      0};  // written by the reader: gives slots[tail-1] back
  alignas(64) std::atomic<bool> sender_gone{false};
  std::atomic<bool> receiver_gone{false};

  /// One end's waiter: set once by that end, and kept as long as the other end may ring it.
  struct Sleeper {
    void hang(std::shared_ptr<Waiter> waiter) {
      keep = std::move(waiter);
      doorbell.store(keep.get());
    }
    void ring_if_asleep() {
      if (Waiter* waiter = doorbell.load()) waiter->ring_if_asleep();
    }
    bool hung() const { return doorbell.load() != nullptr; }
    void ring() {
      if (Waiter* waiter = doorbell.load()) waiter->ring();
    }

   private:
    std::shared_ptr<Waiter> keep;
    std::atomic<Waiter*> doorbell{nullptr};  // publishes *keep
  };
  Sleeper sender;
  Sleeper receiver;
};

}  // namespace ccoll::inproc
