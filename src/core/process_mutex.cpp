// SPDX-License-Identifier: Apache-2.0
#include "core/process_mutex.hpp"

#include <pthread.h>

#include <atomic>

namespace ccoll {
namespace {

/// Who forks writes. Readers come before writers that wait, as pthread's default is and
/// std::shared_mutex does not promise: so one may read that reads already.
struct Gate {
  pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
};

Gate& gate() {
  // Never destroyed: threads may still ask while the process runs its exit handlers. A child has
  // one of its own, as its only thread is not the one that has the parent's.
  static std::atomic<Gate*> instance = [] {
    pthread_atfork([] { pthread_rwlock_wrlock(&gate().lock); },
                   [] { pthread_rwlock_unlock(&gate().lock); }, [] { instance = new Gate; });
    return new Gate;
  }();
  return *instance.load(std::memory_order_relaxed);
}

}  // namespace

NoFork::NoFork() { pthread_rwlock_rdlock(&gate().lock); }
NoFork::~NoFork() { pthread_rwlock_unlock(&gate().lock); }

void ProcessMutex::lock() {
  pthread_rwlock_rdlock(&gate().lock);
  mutex_.lock();
}

void ProcessMutex::unlock() {
  mutex_.unlock();
  pthread_rwlock_unlock(&gate().lock);
}

}  // namespace ccoll
