// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Gives one thread at a time the right to a communicator's operations and links, in the order of
/// asking. It is a ticket lock that sleeps. A lock that yields would wait, each time, for the time
/// slice of whatever else runs on its core.

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

namespace ccoll {

/// Shows that this thread holds a communicator's owner flag. Only the flag makes it. It has nothing
/// in it, so that passing it on costs nothing; it must not outlive the holding.
class Owned {
  friend class OwnerFlag;
  Owned() = default;
};

/// A value that only the holder of the owner flag can reach.
template <typename T>
class OwnersOnly {
 public:
  template <typename... Arguments>
  explicit OwnersOnly(Arguments&&... arguments) : value_(std::forward<Arguments>(arguments)...) {}
  OwnersOnly(const OwnersOnly&) = delete;
  OwnersOnly& operator=(const OwnersOnly&) = delete;

  T& operator()(Owned /*owned*/) { return value_; }
  const T& operator()(Owned /*owned*/) const { return value_; }

 private:
  T value_;
};

class OwnerFlag {
 public:
  /// Takes the flag if it is free; never waits.
  std::optional<Owned> try_take() {
    auto tickets = tickets_.load(std::memory_order_relaxed);
    if (next(tickets) != serving(tickets) ||
        !tickets_.compare_exchange_strong(tickets, tickets + kOneMore))
      return std::nullopt;
    return Owned();
  }
  /// Takes a place in the queue, for wait().
  std::uint32_t queue() { return next(tickets_.fetch_add(kOneMore)); }
  /// Waits until it is that ticket's turn; the caller then has the flag.
  Owned wait(std::uint32_t ticket);
  /// Publishes the holder's writes to the next holder, which may free the flag at once: the store
  /// itself tells whether a thread waits.
  void give_back(Owned /*owned*/) {
    // seq_cst; partner: queue(), whose thread is seen here, or sees that it is its turn.
    auto tickets = tickets_.load(std::memory_order_relaxed);
    while (!tickets_.compare_exchange_weak(tickets, with_next_served(tickets))) continue;
    if (next(tickets) != serving(tickets) + 1) [[unlikely]]
      wake();
  }
  /// Lets all waiting threads have it first; returns with it.
  void pass_round(Owned owned) {
    const auto ticket = queue();
    give_back(owned);
    wait(ticket);
  }
  /// In a forked child, whose other threads are gone: nobody has the flag.
  void forget() {
    // The multiplication puts the number into both halves.
    tickets_.store(serving(tickets_.load(std::memory_order_relaxed)) * (kOneMore + 1));
  }
  /// For the child's only thread, which may have had the flag when it forked: takes it again.
  void take_again() { try_take(); }
  /// How many threads wait for it, as the holder sees it.
  std::uint32_t waiting() const {
    const auto tickets = tickets_.load();
    return next(tickets) - serving(tickets) - 1;
  }

 private:
  static constexpr std::uint64_t kOneMore = std::uint64_t{1} << 32;
  static std::uint32_t next(std::uint64_t tickets) {
    return static_cast<std::uint32_t>(tickets >> 32);
  }
  static std::uint32_t serving(std::uint64_t tickets) {
    return static_cast<std::uint32_t>(tickets);
  }
  static std::uint64_t with_next_served(std::uint64_t tickets) {
    return (tickets & ~(kOneMore - 1)) | static_cast<std::uint32_t>(tickets + 1);
  }
  void wake();

  /// The upper half is the next ticket to be given, the lower half the one that has the flag. If
  /// they are equal, nobody has it.
  std::atomic<std::uint64_t> tickets_{0};
};

}  // namespace ccoll
