// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Children that a test forks, for programs of their own (support/verdict.hpp).

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

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
