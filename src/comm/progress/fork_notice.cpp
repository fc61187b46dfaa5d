// SPDX-License-Identifier: Apache-2.0
#include "comm/progress/fork_notice.hpp"

#include <pthread.h>

#include <mutex>

#include "system/locks.hpp"
#include "system/runtime.hpp"

namespace ccoll {
namespace {

/// Not a Guarded: the handler in a forked child reads them without the lock, which may not be free
/// again there before that handler has run.
struct Listeners {
  ProcessMutex mutex;
  std::list<ForkNotice::Listener*> all;
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
