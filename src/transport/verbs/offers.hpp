// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Receiver memory that payloads may be written to, instead of to a slot: what the receiver has
/// offered, and what the sender has seen of that. Each side knows its own part; the queue pair
/// carries offers from one to the other.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

namespace ccoll::verbs {

class Registration;

/// Bytes [begin, begin + bytes) of the link's payloads go to `address`. The layout is that of the
/// sender's memory.
struct Offer {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint32_t is_of_one = 0;   ///< it serves one slice that fills it exactly, or none
  std::uint32_t is_for_all = 0;  ///< also serves slices too short to be worth it for a CPU's memory
  std::uint32_t checksum = 0;    ///< always sent: a flipped bit would move bytes to another place
};
static_assert(sizeof(Offer) == 40);

/// Offers that are made and not yet seen by the sender.
inline constexpr std::uint32_t kOffers = 4;

/// The sender's: offers that have come, as long as they serve slices.
class TakenOffers {
 public:
  /// Number of those that have come.
  std::uint32_t seen() const { return seen_; }
  bool empty() const { return offers_.empty(); }
  /// The next one has come; false if its checksum is wrong.
  bool take(const Offer& offer);
  /// The one for a slice that begins after `begin` bytes of payloads, if any; forgets earlier ones.
  const Offer* for_slice(std::uint64_t begin, std::size_t bytes);

 private:
  std::deque<Offer> offers_;
  std::uint32_t seen_ = 0;
};

/// The receiver's: offers that it has made, each with the registration that it needs meanwhile.
class MadeOffers {
 public:
  using Memory = std::shared_ptr<const Registration>;

  bool has_room() const { return made_ - known_ < kOffers; }
  std::uint32_t made() const { return made_; }
  bool empty() const { return wanted_.empty(); }
  /// Returns it with its checksum.
  Offer make(Offer offer, Memory memory);
  /// The sender has seen so many; false if they were not made.
  bool has_seen(std::uint32_t count);
  /// The place of such a slice's payload; null if no offer holds all of it.
  const std::byte* place_of(std::uint64_t begin, std::size_t bytes) const;
  /// Payloads before `begin` have been read.
  void drop_before(std::uint64_t begin);
  void clear() { wanted_.clear(); }

 private:
  struct Wanted {
    Offer offer;
    Memory memory;
  };
  std::deque<Wanted> wanted_;
  std::uint32_t made_ = 0;
  std::uint32_t known_ = 0;
};

}  // namespace ccoll::verbs
