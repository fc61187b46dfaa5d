// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A value and the mutex that guards it.

#include <mutex>
#include <new>
#include <utility>

namespace ccoll {

/// The value can only be reached under the lock. `with` returns copies, so that no reference to
/// the value outlives the lock.
template <typename T>
class Guarded {
 public:
  Guarded() = default;
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  /// Calls `use` with the value and returns its result. `use` must not reach for the same value.
  template <typename Use>
  auto with(Use&& use) {
    const std::lock_guard lock(mutex_);
    return std::forward<Use>(use)(value_);
  }
  template <typename Use>
  auto with(Use&& use) const {
    const std::lock_guard lock(mutex_);
    return std::forward<Use>(use)(value_);
  }
  /// In a forked child, where the thread that held the lock may be gone.
  void forget_lock() { new (&mutex_) std::mutex; }

 private:
  mutable std::mutex mutex_;
  T value_{};
};

}  // namespace ccoll
