// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Who may touch a communicator's operations and links: one thread at a time, in the order of
/// asking. A ticket lock that sleeps. One that yields instead would wait, each time, for as long
/// as the scheduler gives to whatever else runs on its core.

#include <atomic>
#include <cstdint>

namespace ccoll {

class OwnerFlag {
 public:
  /// Has it, or does not wait for it.
  bool try_take() {
    auto tickets = tickets_.load(std::memory_order_relaxed);
    return next(tickets) == serving(tickets) &&
           tickets_.compare_exchange_strong(tickets, tickets + kOneMore);
  }
  /// A place in the queue, to wait for with wait().
  std::uint32_t queue() { return next(tickets_.fetch_add(kOneMore)); }
  /// Until it is that ticket's turn, which then has the flag.
  void wait(std::uint32_t ticket);
  /// What the holder wrote before is seen by the next, who may free the flag at once: who waits is
  /// known from the store itself.
  void give_back() {
    // seq_cst; partner: queue(), whose thread is seen here, or sees that it is its turn.
    auto tickets = tickets_.load(std::memory_order_relaxed);
    while (!tickets_.compare_exchange_weak(tickets, with_next_served(tickets))) continue;
    if (next(tickets) != serving(tickets) + 1) [[unlikely]]
      wake();
  }
  /// Lets all who wait have it first; returns with it.
  void pass_round() {
    const auto ticket = queue();
    give_back();
    wait(ticket);
  }
  /// In a forked child, whose other threads are gone: nobody has it.
  void forget() {
    tickets_.store(serving(tickets_.load(std::memory_order_relaxed)) * (kOneMore + 1));
  }
  /// There, by the only thread, which may have had it when it forked: it has it.
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

  /// The next ticket to be given, above the one that has the flag; where they are the same, nobody
  /// has it.
  std::atomic<std::uint64_t> tickets_{0};
};

}  // namespace ccoll
