// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Locks that belong to the whole process rather than to an object, and so are there in a child
/// that another thread forks: were they held just then, they would be for ever in the child.

#include <mutex>

namespace ccoll {

/// While one lives, fork() waits: what is under way is whole in a child. For what is seldom and
/// over in a moment, as those who come let each other in before who forks. Who holds one does not
/// fork. They may nest.
class NoFork {
 public:
  NoFork();
  ~NoFork();
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;
};

/// A mutex that nobody holds in a forked child.
class ProcessMutex {
 public:
  void lock();
  void unlock();

 private:
  std::mutex mutex_;
};

}  // namespace ccoll
