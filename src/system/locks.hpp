// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Values with the mutex that guards them, and locks that belong to the whole process.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <utility>

namespace ccoll {

/// A value that can only be reached under its lock. `Mutex` is any mutex, such as ProcessMutex.
template <typename T, typename Mutex = std::mutex>
class Guarded {
  /// The value, under the lock until the end of the scope or unlock().
  template <typename Value, typename Of, typename Lock = std::unique_lock<Mutex>>
  class Access {
   public:
    template <typename... How>
    explicit Access(Of& guarded, How... how)
        : value_(guarded.value_), lock_(guarded.mutex_, how...) {}
    Value* operator->() const { return &value_; }
    Value& operator*() const { return value_; }
    /// False after unlock(), and where try_lock() found it locked.
    explicit operator bool() const { return lock_.owns_lock(); }
    void unlock() { lock_.unlock(); }
    void lock() { lock_.lock(); }

    /// Gives the lock up until `holds(value)`. Others notify `changed` after they change the value.
    /// The standard library's wait without a limit is newer than wheels may need.
    template <typename Holds>
    void wait(std::condition_variable& changed, Holds&& holds) {
      while (!changed.wait_for(lock_, std::chrono::hours(24),
                               [&] { return holds(std::as_const(value_)); }))
        continue;
    }
    /// The same, at most until then. Returns whether it holds.
    template <typename Holds>
    bool wait_until(std::condition_variable& changed, std::chrono::steady_clock::time_point end,
                    Holds&& holds) {
      return changed.wait_until(lock_, end, [&] { return holds(std::as_const(value_)); });
    }

   private:
    Value& value_;
    Lock lock_;
  };

 public:
  using Locked = Access<T, Guarded>;
  using LockedConst = Access<const T, const Guarded>;
  using LockedShared = Access<const T, const Guarded, std::shared_lock<Mutex>>;

  template <typename... Arguments>
  explicit Guarded(Arguments&&... arguments) : value_(std::forward<Arguments>(arguments)...) {}
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  /// Locks it for a scope. The result must outlive each reference to the value.
  Locked lock() { return Locked(*this); }
  LockedConst lock() const { return LockedConst(*this); }
  /// The same without waiting: the result is false where another holds the lock.
  Locked try_lock() { return Locked(*this, std::try_to_lock); }
  /// Locks it beside other readers. `Mutex` is std::shared_mutex or the like.
  LockedShared lock_shared() const { return LockedShared(*this); }

  /// Calls `use` with the value and returns a copy of its result, so that no reference to the value
  /// outlives the lock. `use` must not reach for the same value.
  template <typename Use>
  auto with(Use&& use) {
    const auto locked = lock();
    return std::forward<Use>(use)(*locked);
  }
  template <typename Use>
  auto with(Use&& use) const {
    const auto locked = lock();
    return std::forward<Use>(use)(*locked);
  }
  /// In a forked child, where the thread that held the lock may be gone.
  void forget_lock() { new (&mutex_) Mutex; }

 private:
  mutable Mutex mutex_;
  T value_;
};

/// While one lives, fork() waits, so that a child finds the guarded work complete. Use it for rare
/// and short work: threads let each other in before a thread that forks. A holder must not fork.
/// They may nest.
class NoFork {
 public:
  NoFork();
  ~NoFork();
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;
};

/// A mutex that is never locked in a forked child. It guards what belongs to the whole process:
/// other locks stay locked for ever in a child that another thread forks meanwhile.
class ProcessMutex {
 public:
  void lock();
  void unlock();

 private:
  std::mutex mutex_;
};

}  // namespace ccoll
