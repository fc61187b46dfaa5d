// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Child processes of a test, for programs of their own (support/verdict.hpp).

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "support/verdict.hpp"

namespace ccoll::testing {

/// Whether a child may allocate: a thread that fork did not copy may hold a sanitizer's lock.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kChildrenHaveMemory = false;
#elif defined(__has_feature)
constexpr bool kChildrenHaveMemory =
    !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer);
#else
constexpr bool kChildrenHaveMemory = true;
#endif

/// Whether a child of a multi-threaded process may start threads: the thread sanitizer kills it.
#if defined(__SANITIZE_THREAD__)
constexpr bool kChildrenHaveThreads = false;
#elif defined(__has_feature)
constexpr bool kChildrenHaveThreads = !__has_feature(thread_sanitizer);
#else
constexpr bool kChildrenHaveThreads = true;
#endif

/// A count that this process shares with those that it forks afterwards.
class SharedCount {
 public:
  SharedCount() {
    if (place_ == MAP_FAILED) std::abort();
  }
  ~SharedCount() { munmap(place_, sizeof(std::atomic<int>)); }
  SharedCount(const SharedCount&) = delete;
  SharedCount& operator=(const SharedCount&) = delete;
  /// It begins at 0, as new pages do.
  std::atomic<int>& operator*() const { return *static_cast<std::atomic<int>*>(place_); }

 private:
  void* const place_ = mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
};

/// Runs `body(i)` in `count` processes; all must exit with success, however long they take.
inline void run_processes(int count, const std::function<void(int)>& body) {
  std::vector<pid_t> children;
  for (int i = 0; i < count; i++) {
    const pid_t child = fork();
    if (child == 0) {
      failures = 0;
      try {
        body(i);
      } catch (const std::exception& error) {
        check(false, "process " + std::to_string(i) + ": " + error.what());
      }
      std::cout.flush();
      _exit(failures == 0 ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    check(status == 0, "a process ends with status " + std::to_string(status));
  }
}

/// A child that does not hang ends within this time.
constexpr std::chrono::seconds kSoon{5};

/// Waits for a process that must end soon; returns its status.
inline int status_of(pid_t child, const std::string& what) {
  const auto limit = std::chrono::steady_clock::now() + kSoon;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > limit) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      check(false, what + ": the child does not end");
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return status;
}

/// A child that runs `body` and then exit(), which must end soon and with success.
inline void fork_child(const std::string& what, const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    failures = 0;
    body();
    std::exit(failures);
  }
  const int status = status_of(child, what);
  check(status == 0, what + ": the child's status is " + std::to_string(status));
}

}  // namespace ccoll::testing
