// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Locks that belong to the whole process, not to an object. They also exist in a child that
/// another thread forks: if they were held at that moment, they would stay locked there for ever.

#include <mutex>

namespace ccoll {

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

/// A mutex that is never locked in a forked child.
class ProcessMutex {
 public:
  void lock();
  void unlock();

 private:
  std::mutex mutex_;
};

}  // namespace ccoll
