// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Wakes a sleeping rank: its sleep word, a count of rings, and the chime that ends the sleep. All
/// can be handed to peers in other processes.

#include <atomic>
#include <cstdint>
#include <memory>

#include "core/result.hpp"
#include "system/file_descriptor.hpp"
#include "system/segment.hpp"
#include "transport/chime.hpp"
#include "transport/sleep_word.hpp"

namespace ccoll {

class Doorbell {
 public:
  static Result<std::shared_ptr<Doorbell>> make(std::shared_ptr<Chime> chime);
  /// A peer's, which has handed over its chime's event, its memory() and its number().
  static Result<std::shared_ptr<Doorbell>> of_peer(FileDescriptor event,
                                                   const FileDescriptor& memory,
                                                   std::uint32_t number);
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  Chime& chime() const { return *chime_; }
  const FileDescriptor& memory() const { return cells_->file(); }
  /// The chime's number, and the cell's index in the memory.
  std::uint32_t number() const { return chime_->number() << kCellBits | cell_; }

  void set_asleep() { word_.set_asleep(); }
  void set_awake() { word_.set_awake(); }
  bool asleep() const { return word_.asleep(); }
  void ring_if_asleep() {
    if (word_.wants_ring()) ring();
  }
  void ring() {
    rings_.fetch_add(1);
    chime_->ring();
  }
  /// The count of rings; each is counted before the chime is heard.
  std::uint32_t rings() const { return rings_.load(); }

 private:
  static constexpr unsigned kCellBits = 8;
  static_assert(std::uint64_t{Chime::kNumbers} << kCellBits == std::uint64_t{1} << 32);
  /// The memory is zero at first.
  struct Cell {
    SleepWord word;
    std::atomic<std::uint32_t> rings{0};
  };
  static Cell& cell_in(const Segment& cells, std::uint32_t number);

  Doorbell(std::shared_ptr<Chime> chime, std::shared_ptr<Segment> cells, std::uint32_t cell,
           bool mine);

  const std::shared_ptr<Chime> chime_;
  const std::shared_ptr<Segment> cells_;
  const std::uint32_t cell_;
  const bool mine_;
  // in cells_
  SleepWord& word_;
  std::atomic<std::uint32_t>& rings_;
};

}  // namespace ccoll
