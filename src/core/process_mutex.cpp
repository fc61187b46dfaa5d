// SPDX-License-Identifier: Apache-2.0
#include "core/process_mutex.hpp"

#include <pthread.h>

#include <atomic>
#include <shared_mutex>

namespace ccoll {
namespace {

/// Who forks has it alone.
std::shared_mutex& gate() {
  // Never destroyed: threads may still ask while the process runs its exit handlers. A child has
  // one of its own, as its only thread is not the one that has the parent's.
  static std::atomic<std::shared_mutex*> instance = [] {
    pthread_atfork([] { gate().lock(); }, [] { gate().unlock(); },
                   [] { instance = new std::shared_mutex; });
    return new std::shared_mutex;
  }();
  return *instance.load(std::memory_order_relaxed);
}

/// Before main, when nobody forks yet: at the first use another thread could be in fork() already.
[[maybe_unused]] const auto& made_early = gate();

/// How many NoForks of this thread live: the first and the last pass the gate, so that none waits
/// there behind a thread that forks and waits for another.
thread_local int inside = 0;

void enter() {
  if (inside++ == 0) gate().lock_shared();
}

void leave() {
  if (--inside == 0) gate().unlock_shared();
}

}  // namespace

NoFork::NoFork() { enter(); }
NoFork::~NoFork() { leave(); }

void ProcessMutex::lock() {
  enter();
  mutex_.lock();
}

void ProcessMutex::unlock() {
  mutex_.unlock();
  leave();
}

}  // namespace ccoll
