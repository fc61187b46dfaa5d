// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which receive takes which message, as MPI has it: a message goes to the first posted of the
/// receives that match it, a receive takes the first come of the messages that match it. Either is
/// found in a time that grows with the logarithm of how many wait. Pure: knows no link.

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

/// What a receive or a probe asks for; what is absent, it does not care about.
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
  std::size_t charge = 0;  ///< what it takes of its sender's credit
};

/// A message that came before its receive, with as much of it as was sent along.
struct Unexpected {
  Envelope envelope;
  std::vector<std::byte> head;
  std::uint64_t arrival = 0;
};

bool matches(const Pattern& pattern, const Envelope& envelope);

class Matcher {
 public:
  /// A receive that nothing in the queue matches waits. It stays its owner's.
  void post(MessageOperation* receive);
  /// The receive for that message, which then waits no more; or null.
  MessageOperation* take_receive(const Envelope& envelope);
  /// A receive that waits for `source` by name, or null.
  MessageOperation* one_from(Rank source) const;
  /// A receive that waits for whoever sends, or null.
  MessageOperation* one_from_any() const {
    const bool is_there = !posted_.empty() && posted_.rbegin()->first.source == kAny;
    return is_there ? posted_.rbegin()->second : nullptr;
  }

  /// A message that no receive matches waits.
  void store(const Envelope& envelope, const std::byte* head, std::size_t head_bytes);
  /// The message for that receive, if there is one; valid until the next call.
  using Found = std::optional<std::list<Unexpected>::iterator>;
  Found find(const Pattern& pattern);
  /// The message that find gives, which then waits no more.
  Unexpected take(Found found);
  /// Waiting messages from `source`, the first come first.
  const std::list<Unexpected>& from(Rank source) const;

  /// Forgets everything.
  void clear();

 private:
  /// In place of a source or a tag: behind all that there are.
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
    std::list<Unexpected> all;  ///< the first come first
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
