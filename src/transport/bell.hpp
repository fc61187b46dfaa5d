// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Ringing a rank out of its sleep: the word that says that it sleeps, and the eventfd that ends
/// the sleep. Both can be handed to peers in other processes.

#include <cstdint>
#include <memory>

#include "core/file_descriptor.hpp"
#include "core/result.hpp"
#include "transport/segment.hpp"
#include "transport/sleep_word.hpp"

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

  void set_asleep() { word_.set_asleep(); }
  void set_awake() { word_.set_awake(); }
  bool asleep() const { return word_.asleep(); }
  void ring_if_asleep() {
    if (word_.wants_ring()) ring();
  }
  void ring();

 private:
  Bell(FileDescriptor event, std::shared_ptr<Segment> cells, std::uint32_t cell, bool mine);

  const FileDescriptor event_;
  const std::shared_ptr<Segment> cells_;
  const std::uint32_t cell_;
  const bool mine_;
  SleepWord& word_;  // in cells_
};

}  // namespace ccoll
