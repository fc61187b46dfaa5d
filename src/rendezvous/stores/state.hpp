// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The meaning of a store: the keys and values, and the requests that wait for them. Every store of
/// ours is this state machine, reached in its own way. It reads no clock: a request that has waited
/// long enough is ended by cancel().

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

/// Not thread-safe: its owner has a lock, or one thread. Deterministic: two states that get the
/// same requests in the same order answer alike.
class State {
 public:
  /// Names a request. The caller of submit() chooses it; it differs from those that still wait.
  using Ticket = std::uint64_t;
  /// Called within submit() or cancel(), once; must not call back into the state.
  using Reply = std::function<void(Ticket, Result<Response>)>;

  /// Carries out `request` (a valid one, not `cancel`). It answers before it returns, unless the
  /// request has to wait; the change that ends the wait then answers it.
  void submit(Ticket ticket, Request request, Reply reply);

  /// Whether the request is still without an answer.
  bool waits(Ticket ticket) const { return waiters_.contains(ticket); }

  /// Answers a waiting request with `timed_out` and what is missing, and forgets it: barriers then
  /// do not count it. Does nothing if it has been answered.
  void cancel(Ticket ticket);
  /// Forgets the request without an answer, because its client has gone.
  void abandon(Ticket ticket);

 private:
  struct Waiter {
    Request request;
    Reply reply;
    std::size_t at = 0;  ///< the key that it waits for; the ones before it have been seen
  };
  using Tickets = std::deque<Ticket>;

  void answer(Ticket ticket, Result<Response> response);
  Result<Response> act(const Request& request);
  Result<Response> add(const Request& request);
  Result<Response> compare_set(const Request& request);
  Result<Response> append(const Request& request);
  Response values_of(const Request& request) const;
  /// True if all keys exist; else the waiter joins the line of a missing one.
  bool advance(Ticket ticket, Waiter& waiter);
  void enter_barrier(Ticket ticket, const Waiter& waiter);
  void put(const std::string& key, std::string value);
  /// Resumes the requests that wait for one of `touched_`. It runs after the change is complete, so
  /// that no request sees half of it.
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
