// SPDX-License-Identifier: Apache-2.0
#include "comm/fork_notice.hpp"

#include <pthread.h>

#include <mutex>

namespace ccoll {
namespace {

struct Listeners {
  std::mutex mutex;
  std::list<ForkNotice::Listener*> all;  // guarded by mutex
};

Listeners& listeners() {
  // Never destroyed: a program's own objects may end later at exit. Who forks holds the lock
  // meanwhile, so that the child finds the list whole.
  static Listeners& instance = [&]() -> Listeners& {
    auto* const made = new Listeners;
    pthread_atfork([] { listeners().mutex.lock(); }, [] { listeners().mutex.unlock(); },
                   [] {
                     for (auto* const listener : listeners().all) listener->forked();
                     listeners().mutex.unlock();
                   });
    return *made;
  }();
  return instance;
}

}  // namespace

ForkNotice::ForkNotice(Listener& listener) {
  const std::lock_guard lock(listeners().mutex);
  place_ = listeners().all.insert(listeners().all.end(), &listener);
}

ForkNotice::~ForkNotice() {
  const std::lock_guard lock(listeners().mutex);
  listeners().all.erase(place_);
}

}  // namespace ccoll
