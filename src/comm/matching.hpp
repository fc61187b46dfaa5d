// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which receive takes which message, as MPI has it: a message goes to the first posted of the
/// receives that match it, a receive takes the first come of the messages that match it. Pure:
/// knows no link.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
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
  bool wants_grant = false;
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
  /// The first receive that waits for `source` by name, or null.
  MessageOperation* first_from(Rank source) const;
  /// The first receive that waits for whoever sends, or null.
  MessageOperation* first_from_any() const { return any_.empty() ? nullptr : any_.front().receive; }

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
  struct Posted {
    std::uint64_t number;
    MessageOperation* receive;
  };
  using Queue = std::deque<Posted>;
  static Queue::iterator find_in(Queue& queue, const Envelope& envelope);

  std::map<Rank, Queue> by_source_;
  Queue any_;
  std::uint64_t posted_ = 0;
  std::map<Rank, std::list<Unexpected>> unexpected_;
  std::uint64_t arrived_ = 0;
};

}  // namespace ccoll
