// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Waits until another thread is blocked in its call, which is not visible otherwise.

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "support/effort.hpp"
#include "support/eventually.hpp"

namespace ccoll::testing {

/// A text that changes each time thread `id` (its gettid()) of this process goes to sleep; empty
/// unless it sleeps.
inline std::string sleeps_of(pid_t id) {
  std::ifstream file("/proc/self/task/" + std::to_string(id) + "/status");
  bool is_asleep = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("State:")) is_asleep = line.find('S', 6) != line.npos;
    if (line.starts_with("voluntary_ctxt_switches:")) return is_asleep ? line : "";
  }
  return "";
}

/// Whether thread `id` goes to sleep for good: one sleep that lasts longer than any lock on its way
/// to the call, on however busy a machine. False after kPatience.
inline bool falls_asleep(pid_t id) {
  constexpr int kLooks = 20;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  std::string sleeps;
  for (int same = 0; std::chrono::steady_clock::now() < end;) {
    auto now = sleeps_of(id);
    same = !now.empty() && now == sleeps ? same + 1 : 0;
    if (same == kLooks) return true;
    sleeps = std::move(now);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

/// A thread that is about to block in a call, for another one that waits until it has.
class Sleeper {
 public:
  /// Says that it is this thread. Its call must come next.
  void is_this_thread() { id_ = gettid(); }
  /// Whether that thread then falls asleep for good.
  bool sleeps() const {
    return eventually([this] { return id_ != 0; }) && falls_asleep(id_);
  }

 private:
  std::atomic<pid_t> id_ = 0;
};

}  // namespace ccoll::testing
