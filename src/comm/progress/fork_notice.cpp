// SPDX-License-Identifier: Apache-2.0
#include "comm/progress/fork_notice.hpp"

#include <pthread.h>

#include <mutex>

#include "system/locks.hpp"
#include "system/runtime.hpp"

namespace ccoll {
namespace {

struct Listeners {
  ProcessMutex mutex;
  std::list<ForkNotice::Listener*> all;  // guarded by mutex
};

Listeners& listeners() { return Runtime::one<Listeners>(); }

/// Runs before main, when no thread forks yet.
[[maybe_unused]] const int fork_registered = pthread_atfork(nullptr, nullptr, [] {
  for (auto* const listener : listeners().all) listener->forked();
});

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
