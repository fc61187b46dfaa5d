// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Callers' labels for collectives and names of their own reductions, as note_of() joins them.
/// Keeps those of the last calls that History keeps. Any thread may use it, but only calls with
/// such a note and reports of failures do.

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "comm/record/history.hpp"

namespace ccoll {

class Labels {
 public:
  /// Must come before the call begins.
  void set(std::uint64_t call, std::string_view text) {
    if (text.empty()) return;
    const std::lock_guard lock(mutex_);
    labels_.emplace(call, text);
    if (call >= History::kCalls)
      labels_.erase(labels_.begin(), labels_.upper_bound(call - History::kCalls));
  }
  /// Empty if the call has none.
  std::string of(std::uint64_t call) const {
    const std::lock_guard lock(mutex_);
    const auto found = labels_.find(call);
    return found == labels_.end() ? std::string() : found->second;
  }
  /// In a forked child, where the thread that held the lock may be gone.
  void forget_lock() { new (&mutex_) std::mutex; }

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::string> labels_;  // guarded by mutex_
};

}  // namespace ccoll
