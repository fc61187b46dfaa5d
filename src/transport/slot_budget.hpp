// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How much memory the slots of this process's links may take, all communicators together. Counted
/// is what may ever be touched; what is not touched costs nothing.

#include <atomic>
#include <cstddef>
#include <utility>

namespace ccoll {

class SlotBudget {
 public:
  static constexpr std::size_t kDefaultBytes = std::size_t{256} << 20;

  static SlotBudget& of_process();

  std::size_t limit_bytes() const { return limit_.load(std::memory_order_relaxed); }
  /// Of what is taken from now on. CCOLL_SLOT_MEMORY.
  void set_limit(std::size_t bytes) { limit_.store(bytes, std::memory_order_relaxed); }
  std::size_t taken_bytes() const { return taken_.load(std::memory_order_relaxed); }

  /// A part of the budget; goes back with its end.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share() {
      if (budget_ != nullptr) budget_->taken_.fetch_sub(bytes_, std::memory_order_relaxed);
    }

    /// Whether there is one.
    explicit operator bool() const { return budget_ != nullptr; }
    std::size_t bytes() const { return bytes_; }

   private:
    friend SlotBudget;
    Share(SlotBudget* budget, std::size_t bytes) : budget_(budget), bytes_(bytes) {}

    SlotBudget* budget_ = nullptr;
    std::size_t bytes_ = 0;
  };

  /// What a link is best with, of the first half of the budget; else what it needs, of all of it;
  /// else none.
  Share take(std::size_t best, std::size_t least);

 private:
  bool take_within(std::size_t limit, std::size_t bytes);

  std::atomic<std::size_t> limit_{kDefaultBytes};
  std::atomic<std::size_t> taken_{0};
};

}  // namespace ccoll
