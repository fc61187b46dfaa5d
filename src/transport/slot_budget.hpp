// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The memory limit for the slots of a rank's links, over all its communicators. It counts all
/// bytes that may ever be touched; untouched bytes cost nothing. Thread-safe.

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace ccoll {

class SlotBudget : public std::enable_shared_from_this<SlotBudget> {
 public:
  explicit SlotBudget(std::size_t limit_bytes) : limit_bytes_(limit_bytes) {}

  std::size_t limit_bytes() const { return limit_bytes_; }
  std::size_t taken_bytes() const { return taken_.load(std::memory_order_relaxed); }

  /// A part of the budget, which it returns at its end.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept
        : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share() {
      if (budget_) budget_->taken_.fetch_sub(bytes_, std::memory_order_relaxed);
    }

    /// Whether it holds a part.
    explicit operator bool() const { return budget_ != nullptr; }
    std::size_t bytes() const { return bytes_; }
    /// Adds optional bytes from the first half of the budget; false if they are not there.
    bool grow(std::size_t bytes);

   private:
    friend SlotBudget;
    Share(std::shared_ptr<SlotBudget> budget, std::size_t bytes)
        : budget_(std::move(budget)), bytes_(bytes) {}

    std::shared_ptr<SlotBudget> budget_;
    std::size_t bytes_ = 0;
  };

  /// For bytes that a link needs; empty if they are not there.
  Share take(std::size_t bytes);
  /// As take(), for a link that could do with little: from the first three quarters of the budget.
  Share take_unless_scarce(std::size_t bytes);
  /// For optional bytes: from the first half of the budget.
  Share take_spare(std::size_t bytes);

 private:
  bool take_within(std::size_t limit, std::size_t bytes);

  const std::size_t limit_bytes_;
  std::atomic<std::size_t> taken_{0};
};

}  // namespace ccoll
