// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Waits until another thread is blocked in its call, which nothing else shows from outside.

#include <sys/types.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>

namespace ccoll::testing {

/// Whether thread `id` (its gettid()) of this process comes to sleep; false after 20 s.
inline bool falls_asleep(pid_t id) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < end) {
    std::ifstream file("/proc/self/task/" + std::to_string(id) + "/stat");
    std::string text;
    std::getline(file, text);
    // The state stands behind the name, which may have parentheses of its own.
    const auto name = text.rfind(')');
    if (name != text.npos && text.compare(name, 3, ") S") == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

}  // namespace ccoll::testing
