// SPDX-License-Identifier: Apache-2.0
#include "comm/progress/fork_notice.hpp"

#include <pthread.h>

#include <mutex>

#include "system/process_mutex.hpp"

namespace ccoll {
namespace {

struct Listeners {
  ProcessMutex mutex;
  std::list<ForkNotice::Listener*> all;  // guarded by mutex
};

Listeners& listeners() {
  // Never destroyed: a program's own objects may end later at exit.
  static Listeners& instance = [&]() -> Listeners& {
    auto* const made = new Listeners;
    pthread_atfork(nullptr, nullptr, [] {
      for (auto* const listener : listeners().all) listener->forked();
    });
    return *made;
  }();
  return instance;
}

/// Made before main: at its first use another thread could be in fork() already.
[[maybe_unused]] const auto& made_early = listeners();

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
