// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which receive takes which message, as in MPI: a message goes to the first posted of the receives
/// that match it, and a receive takes the first come of the messages that match it. Time grows with
/// the logarithm of how many wait, and with the ranks for a receive from any. Pure: knows no link.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "schedule/problem.hpp"

namespace ccoll {

struct MessageOperation;

/// The source and tag that a receive or probe asks for; without one, any will do.
struct Pattern {
  std::optional<Rank> from;
  std::optional<std::uint32_t> tag;
};

struct Envelope {
  Rank from = 0;
  std::uint32_t tag = 0;
  std::uint64_t bytes = 0;  ///< of the whole message
  std::uint64_t id = 0;
  std::uint8_t type = 0;
  bool requests_to_send = false;
  bool in_slots = false;   ///< its payload cannot be read where it lies
  std::size_t charge = 0;  ///< credit that it takes from its sender
};

/// A message that came before its receive, with the data that was sent along.
struct Unexpected {
  Envelope envelope;
  std::vector<std::byte> head;
  std::uint64_t arrival = 0;
};

bool matches(const Pattern& pattern, const Envelope& envelope);

class Matcher {
 public:
  /// Adds a receive that no waiting message matches. The caller still owns it.
  void post(MessageOperation* receive);
  /// Removes and returns the receive for that message; or null.
  MessageOperation* take_receive(const Envelope& envelope);
  /// A receive that waits for `source` by name, or null.
  MessageOperation* one_from(Rank source) const;
  /// A receive that waits for any source, or null.
  MessageOperation* one_from_any() const {
    const bool is_there = !posted_.empty() && posted_.rbegin()->first.source == kAny;
    return is_there ? posted_.rbegin()->second : nullptr;
  }

  /// Stores a message that no receive matches.
  void store(const Envelope& envelope, const std::byte* head, std::size_t head_bytes);
  /// The message for that receive, if there is one; valid until the next call.
  using Found = std::optional<std::list<Unexpected>::iterator>;
  Found find(const Pattern& pattern);
  /// Removes and returns the message that find() gave.
  Unexpected take(Found found);
  /// Waiting messages from `source`, in the order of arrival.
  const std::list<Unexpected>& from(Rank source) const;

  /// Forgets everything.
  void clear();

 private:
  /// Stands for any source or tag; sorts behind all others.
  static constexpr std::uint32_t kAny = UINT32_MAX;

  /// Receives of one pattern follow one another in the order in which they were posted.
  struct Place {
    std::uint32_t source;
    std::uint32_t tag;
    std::uint64_t number;
    auto operator<=>(const Place&) const = default;
  };
  using Posted = std::map<Place, MessageOperation*>;

  /// Messages from one source.
  struct Arrived {
    std::list<Unexpected> all;  ///< in the order of arrival
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::list<Unexpected>::iterator>
        by_tag;  ///< and arrival
    Found find(std::optional<std::uint32_t> tag);
  };

  Posted posted_;
  std::uint64_t posts_ = 0;
  std::map<Rank, Arrived> unexpected_;
  std::uint64_t arrivals_ = 0;
};

}  // namespace ccoll
