// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Ringing a rank out of its sleep: the word that says that it sleeps, and the eventfd that ends
/// the sleep. Both can be handed to peers in other processes.

#include <atomic>
#include <cstdint>
#include <memory>

#include "core/file_descriptor.hpp"
#include "core/result.hpp"
#include "transport/segment.hpp"

namespace ccoll {

class Bell {
 public:
  static Result<std::shared_ptr<Bell>> make();
  /// Of a peer: `cells` is mapped from its memory(), `cell` its cell().
  static Result<std::shared_ptr<Bell>> of_peer(FileDescriptor event, const FileDescriptor& memory,
                                               std::uint32_t cell);
  ~Bell();
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  const FileDescriptor& event() const { return event_; }
  const FileDescriptor& memory() const { return cells_->file(); }
  std::uint32_t cell() const { return cell_; }

  /// The protocol is Waiter::prepare's.
  void set_asleep() { asleep_.store(1, std::memory_order_seq_cst); }
  void set_awake() { asleep_.store(0, std::memory_order_relaxed); }
  bool asleep() const { return asleep_.load(std::memory_order_relaxed) != 0; }
  void ring_if_asleep() {
    if (asleep_.load(std::memory_order_seq_cst) != 0) ring();
  }
  void ring();

 private:
  Bell(FileDescriptor event, std::shared_ptr<Segment> cells, std::uint32_t cell, bool mine);

  const FileDescriptor event_;
  const std::shared_ptr<Segment> cells_;
  const std::uint32_t cell_;
  const bool mine_;
  std::atomic<std::uint32_t>& asleep_;  // in cells_
};

}  // namespace ccoll
