// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Counts of a rank's control traffic. The service thread counts, any thread reads.

#include <atomic>
#include <cstdint>

#include "control/control.hpp"

namespace ccoll::control {

class TrafficCount {
 public:
  void opened() { add(opened_); }
  void sent() { add(sent_); }
  void received() { add(received_); }
  void refused() { add(refused_); }

  Control::Statistics value() const {
    return {value(opened_), value(sent_), value(received_), value(refused_)};
  }

 private:
  using Count = std::atomic<std::uint64_t>;
  static void add(Count& count) { count.fetch_add(1, std::memory_order_relaxed); }
  static std::uint64_t value(const Count& count) { return count.load(std::memory_order_relaxed); }

  Count opened_{0};
  Count sent_{0};
  Count received_{0};
  Count refused_{0};
};

}  // namespace ccoll::control
