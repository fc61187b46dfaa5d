// SPDX-License-Identifier: Apache-2.0
#include "comm/progress/callback_thread.hpp"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "system/runtime.hpp"
#include "system/signals.hpp"

namespace ccoll {

/// The queue, and its two threads: one runs callbacks, the other stands by to take its place. A
/// thread that was replaced ends with its callback.
class CallbackThreads::Process {
 public:
  void start() {
    const std::lock_guard lock(mutex_);
    if (!has_runner_) add([this] { run_first(); });
    has_runner_ = true;
    stand_by();
  }

  void push(std::unique_ptr<Callback> callback) noexcept {
    const std::lock_guard lock(mutex_);
    auto& place = last_ != nullptr ? last_->next_ : first_;
    last_ = callback.get();
    place = std::move(callback);
    if (!is_running_)
      filled_.notify_one();
    else
      ask_for_watch();
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;
  static constexpr std::chrono::milliseconds kPatience{2};
  /// With this many threads, most of which wait, callbacks only wait for earlier ones.
  static constexpr int kMostThreads = 64;

  template <typename Body>
  void add(Body body) {
    const SignalsBlocked blocked;
    std::thread thread(body);
    pthread_setname_np(thread.native_handle(), "ccoll-callbacks");
    thread.detach();
    threads_++;
  }

  /// Without a thread that stands by, callbacks wait for earlier ones.
  void stand_by() noexcept {
    if (has_watcher_) return;
    try {
      add([this] { watch(); });
      has_watcher_ = true;
    } catch (const std::system_error&) {
    }
  }

  void ask_for_watch() {
    if (!is_watched_) late_.notify_one();
  }

  /// Waits without a limit. The standard library's own such wait is newer than wheels may need.
  template <typename Holds>
  static void await(std::condition_variable& changed, Lock& lock, Holds holds) {
    while (!changed.wait_for(lock, std::chrono::hours(24), holds)) continue;
  }

  void run_first() {
    Lock lock(mutex_);
    run(lock);
  }

  void run(Lock& lock) {
    for (;;) {
      await(filled_, lock, [this] { return first_ != nullptr; });
      auto callback = std::move(first_);
      first_ = std::move(callback->next_);
      if (first_ == nullptr) last_ = nullptr;
      is_running_ = true;
      began_ = Clock::now();
      const auto number = ++number_;
      if (first_ != nullptr) ask_for_watch();
      lock.unlock();
      callback->run();
      callback.reset();
      lock.lock();
      if (number != number_) {
        threads_--;
        late_.notify_one();
        return;
      }
      is_running_ = false;
    }
  }

  void watch() {
    Lock lock(mutex_);
    for (;;) {
      await(late_, lock, [this] { return is_running_ && first_ != nullptr; });
      const auto watched = number_;
      is_watched_ = true;
      late_.wait_until(lock, began_ + kPatience, [&] { return number_ != watched; });
      is_watched_ = false;
      if (!is_running_ || number_ != watched || first_ == nullptr) continue;
      if (threads_ >= kMostThreads) {
        await(late_, lock, [&] { return number_ != watched || threads_ < kMostThreads; });
        continue;
      }
      has_watcher_ = false;
      stand_by();
      ++number_;
      is_running_ = false;
      return run(lock);
    }
  }

  std::mutex mutex_;
  std::condition_variable filled_;  ///< for the thread that runs callbacks
  std::condition_variable late_;    ///< for the one that stands by
  // All guarded by mutex_.
  std::unique_ptr<Callback> first_;
  Callback* last_ = nullptr;
  int threads_ = 0;
  bool has_runner_ = false;
  bool has_watcher_ = false;
  bool is_running_ = false;
  bool is_watched_ = false;   ///< the thread that stands by has a time limit
  std::uint64_t number_ = 0;  ///< of the running callback; changes when another thread takes over
  Clock::time_point began_;
};

void CallbackThreads::start() { Runtime::one<Process>().start(); }

void CallbackThreads::run(std::unique_ptr<Callback> callback) noexcept {
  Runtime::one<Process>().push(std::move(callback));
}

/// A forked child begins anew: the threads are the parent's. Runs before main, when no thread
/// forks.
const int CallbackThreads::fork_registered = pthread_atfork(nullptr, nullptr, [] {
  new (&Runtime::one<CallbackThreads::Process>()) CallbackThreads::Process;
});

}  // namespace ccoll
