// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Callers' labels for collectives and names of their own reductions, as note_of() joins them.
/// Keeps those of the last calls that History keeps. Any thread may use it, but only calls with
/// such a note and reports of failures do.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "comm/record/history.hpp"
#include "system/locks.hpp"

namespace ccoll {

class Labels {
 public:
  /// Must come before the call begins.
  void set(std::uint64_t call, std::string_view text) {
    if (text.empty()) return;
    labels_.with([&](auto& labels) {
      labels.emplace(call, text);
      if (call >= History::kCalls)
        labels.erase(labels.begin(), labels.upper_bound(call - History::kCalls));
    });
  }
  /// Empty if the call has none.
  std::string of(std::uint64_t call) const {
    return labels_.with([&](const auto& labels) {
      const auto found = labels.find(call);
      return found == labels.end() ? std::string() : found->second;
    });
  }
  /// In a forked child, where the thread that held the lock may be gone.
  void forget_lock() { labels_.forget_lock(); }

 private:
  Guarded<std::map<std::uint64_t, std::string>> labels_;
};

}  // namespace ccoll
