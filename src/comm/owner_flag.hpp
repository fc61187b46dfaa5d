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
    auto serving = serving_.load(std::memory_order_acquire);
    return next_.load(std::memory_order_relaxed) == serving &&
           next_.compare_exchange_strong(serving, serving + 1);
  }
  /// A place in the queue, to wait for with wait().
  std::uint32_t queue() { return next_.fetch_add(1); }
  /// Until it is that ticket's turn, which then has the flag.
  void wait(std::uint32_t ticket);
  /// What the holder wrote before is seen by the next.
  void give_back() {
    // seq_cst; partner: queue(), whose thread is seen here, or sees that it is its turn.
    const auto next = serving_.load(std::memory_order_relaxed) + 1;
    serving_.store(next);
    if (next_.load() != next) [[unlikely]]
      wake();
  }
  /// Lets all who wait have it first; returns with it.
  void pass_round() {
    const auto ticket = queue();
    give_back();
    wait(ticket);
  }
  /// How many threads wait for it, as the holder sees it.
  std::uint32_t waiting() const {
    return next_.load() - serving_.load(std::memory_order_relaxed) - 1;
  }

 private:
  void wake();

  std::atomic<std::uint32_t> next_{0};     // the next ticket to be given
  std::atomic<std::uint32_t> serving_{0};  // the ticket that has the flag; == next_: nobody
};

}  // namespace ccoll
