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
    /// `bytes` more, for a link that would be faster with them; false where they are kept for links
    /// yet to be opened, which get the second half of the budget.
    bool grow(std::size_t bytes) {
      if (!budget_->take(bytes, budget_->limit_bytes() / 2)) return false;
      bytes_ += bytes;
      return true;
    }

   private:
    friend SlotBudget;
    Share(SlotBudget* budget, std::size_t bytes) : budget_(budget), bytes_(bytes) {}

    SlotBudget* budget_ = nullptr;
    std::size_t bytes_ = 0;
  };

  /// What a link needs; none where that is more than is left.
  Share take(std::size_t bytes) {
    return take(bytes, limit_bytes()) ? Share(this, bytes) : Share();
  }

 private:
  bool take(std::size_t bytes, std::size_t limit);

  std::atomic<std::size_t> limit_{kDefaultBytes};
  std::atomic<std::size_t> taken_{0};
};

}  // namespace ccoll
