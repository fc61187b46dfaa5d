// SPDX-License-Identifier: Apache-2.0
#include "system/locks.hpp"

#include <pthread.h>

#include <atomic>

namespace ccoll {
namespace {

/// How many threads are inside; kForking while one forks, which waits for them all. Threads may
/// enter while others are inside, because these may wait for each other and enter again. No part of
/// Runtime, which is made under it.
constinit std::atomic<int> inside = 0;
constexpr int kForking = -1;

void enter() {
  int now = inside.load();
  while (true) {
    if (now == kForking) {
      inside.wait(now);
      now = inside.load();
    } else if (inside.compare_exchange_weak(now, now + 1)) {
      return;
    }
  }
}

void leave() {
  if (inside.fetch_sub(1) == 1) inside.notify_all();
}

void begin_fork() {
  for (int now = 0; !inside.compare_exchange_weak(now, kForking); now = 0)
    if (now != 0) inside.wait(now);
}

void end_fork() {
  inside = 0;
  inside.notify_all();
}

/// Runs before main, when no thread forks yet.
[[maybe_unused]] const int fork_registered = pthread_atfork(begin_fork, end_fork, end_fork);

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
