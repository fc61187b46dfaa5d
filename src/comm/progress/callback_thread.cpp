// SPDX-License-Identifier: Apache-2.0
#include "comm/progress/callback_thread.hpp"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "system/locks.hpp"
#include "system/runtime.hpp"
#include "system/signals.hpp"

namespace ccoll {

/// The queue, and its two threads: one runs callbacks, the other stands by to take its place. A
/// thread that was replaced ends with its callback.
class CallbackThreads::Process {
 public:
  void start() {
    const auto queue = queue_.lock();
    if (!queue->has_runner) add(*queue, [this] { run_first(); });
    queue->has_runner = true;
    stand_by(*queue);
  }

  void push(std::unique_ptr<Callback> callback) noexcept {
    const auto queue = queue_.lock();
    auto& place = queue->last != nullptr ? queue->last->next_ : queue->first;
    queue->last = callback.get();
    place = std::move(callback);
    if (!queue->is_running)
      filled_.notify_one();
    else
      ask_for_watch(*queue);
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Queue {
    std::unique_ptr<Callback> first;
    Callback* last = nullptr;
    int threads = 0;
    bool has_runner = false;
    bool has_watcher = false;
    bool is_running = false;
    bool is_watched = false;   ///< the thread that stands by has a time limit
    std::uint64_t number = 0;  ///< of the running callback; changes when another thread takes over
    Clock::time_point began;
  };
  static constexpr std::chrono::milliseconds kPatience{2};
  /// With this many threads, most of which wait, callbacks only wait for earlier ones.
  static constexpr int kMostThreads = 64;

  template <typename Body>
  static void add(Queue& queue, Body body) {
    const SignalsBlocked blocked;
    std::thread thread(body);
    pthread_setname_np(thread.native_handle(), "ccoll-callbacks");
    thread.detach();
    queue.threads++;
  }

  /// Without a thread that stands by, callbacks wait for earlier ones.
  void stand_by(Queue& queue) noexcept {
    if (queue.has_watcher) return;
    try {
      add(queue, [this] { watch(); });
      queue.has_watcher = true;
    } catch (const std::system_error&) {
    }
  }

  void ask_for_watch(const Queue& queue) {
    if (!queue.is_watched) late_.notify_one();
  }

  void run_first() { run(queue_.lock()); }

  void run(Guarded<Queue>::Locked queue) {
    for (;;) {
      queue.wait(filled_, [](const Queue& each) { return each.first != nullptr; });
      auto callback = std::move(queue->first);
      queue->first = std::move(callback->next_);
      if (queue->first == nullptr) queue->last = nullptr;
      queue->is_running = true;
      queue->began = Clock::now();
      const auto number = ++queue->number;
      if (queue->first != nullptr) ask_for_watch(*queue);
      queue.unlock();
      callback->run();
      callback.reset();
      queue.lock();
      if (number != queue->number) {
        queue->threads--;
        late_.notify_one();
        return;
      }
      queue->is_running = false;
    }
  }

  void watch() {
    auto queue = queue_.lock();
    for (;;) {
      queue.wait(late_, [](const Queue& each) { return each.is_running && each.first != nullptr; });
      const auto watched = queue->number;
      const auto is_another = [&](const Queue& each) { return each.number != watched; };
      queue->is_watched = true;
      queue.wait_until(late_, queue->began + kPatience, is_another);
      queue->is_watched = false;
      if (!queue->is_running || is_another(*queue) || queue->first == nullptr) continue;
      if (queue->threads >= kMostThreads) {
        queue.wait(late_, [&](const Queue& each) {
          return is_another(each) || each.threads < kMostThreads;
        });
        continue;
      }
      queue->has_watcher = false;
      stand_by(*queue);
      ++queue->number;
      queue->is_running = false;
      return run(std::move(queue));
    }
  }

  Guarded<Queue> queue_;
  std::condition_variable filled_;  ///< for the thread that runs callbacks
  std::condition_variable late_;    ///< for the one that stands by
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
