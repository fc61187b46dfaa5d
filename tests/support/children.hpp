// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Children that a test forks, for programs of their own (support/verdict.hpp).

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

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

/// Whether a child may take memory: a sanitizer's own may be locked there, by threads that are not.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kChildrenHaveMemory = false;
#elif defined(__has_feature)
constexpr bool kChildrenHaveMemory =
    !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer);
#else
constexpr bool kChildrenHaveMemory = true;
#endif

/// Whether a child of a process with threads may start some: the thread sanitizer ends it.
#if defined(__SANITIZE_THREAD__)
constexpr bool kChildrenHaveThreads = false;
#elif defined(__has_feature)
constexpr bool kChildrenHaveThreads = !__has_feature(thread_sanitizer);
#else
constexpr bool kChildrenHaveThreads = true;
#endif

/// `body(i)` in `count` processes, a number each: all are to end well, however long they take.
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

/// A child that is not hung ends within it.
constexpr std::chrono::seconds kSoon{5};

/// A process that ends by itself soon; its status.
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

/// A child that runs `body` and then exit(): its end is to come soon, and well.
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
