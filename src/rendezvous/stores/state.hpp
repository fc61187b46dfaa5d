// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What a store means: the keys and values, and those who wait for them. Every store of ours is
/// this state machine behind another way of reaching it. It reads no clock: who has waited long
/// enough says so with cancel().

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "rendezvous/stores/request.hpp"

namespace ccoll::rendezvous {

/// Not thread-safe: its owner has a lock, or one thread. Deterministic: two states given the same
/// requests in the same order answer alike.
class State {
 public:
  /// Names a request; chosen by whoever submits it, and different from those that still wait.
  using Ticket = std::uint64_t;
  /// Called within submit() or cancel(), once; must not call back into the state.
  using Reply = std::function<void(Ticket, Result<Response>)>;

  /// Does what `request` asks (a valid one, not `cancel`). Answers before it returns unless the
  /// request has to wait; then whatever makes the wait true answers it.
  void submit(Ticket ticket, Request request, Reply reply);

  /// Whether the request has not been answered yet.
  bool waits(Ticket ticket) const { return waiters_.contains(ticket); }

  /// Answers a request that still waits, with `timed_out` and what was missing, and forgets it: it
  /// counts in no barrier any more. Does nothing when it has been answered.
  void cancel(Ticket ticket);
  /// Forgets it without an answer: its client has gone.
  void abandon(Ticket ticket);

 private:
  struct Waiter {
    Request request;
    Reply reply;
    std::size_t at = 0;  ///< the key that it waits for; those before it have been seen
  };
  using Tickets = std::deque<Ticket>;

  void answer(Ticket ticket, Result<Response> response);
  Result<Response> act(const Request& request);
  Result<Response> add(const Request& request);
  Result<Response> compare_set(const Request& request);
  Result<Response> append(const Request& request);
  Response values_of(const Request& request) const;
  /// True once all keys exist; else the waiter stands in line at one that does not.
  bool advance(Ticket ticket, Waiter& waiter);
  void enter_barrier(Ticket ticket, const Waiter& waiter);
  void put(const std::string& key, std::string value);
  /// Lets those go on who waited for one of `touched_`; after the change is complete, so that
  /// nobody sees half of it.
  void wake();
  bool forget(Ticket ticket);
  std::string what_is_missing(const Waiter& waiter) const;

  std::map<std::string, std::string, std::less<>> values_;  // ordered, for list
  std::unordered_map<Ticket, Waiter> waiters_;
  std::unordered_map<std::string, std::unordered_set<Ticket>> lines_;  // by the key waited for
  std::unordered_map<std::string, Tickets> barriers_;                  // in order of arrival
  std::vector<std::string> touched_;
};

}  // namespace ccoll::rendezvous
