// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The times of a record: the processor's counter, which costs a recorder least, as wall time.

#include <chrono>
#include <cstdint>

namespace ccoll {

/// The clocks, read together.
struct Clocks {
  std::uint64_t ticks = 0;  ///< processor_ticks()
  std::int64_t steady = 0;  ///< in nanoseconds, as the next
  std::int64_t wall = 0;
  static Clocks now();
};

/// Turns times into nanoseconds since 1970, by two looks at the clocks: when the record began, and
/// now.
class Times {
 public:
  explicit Times(const Clocks& begin) : begin_(begin) {}
  std::int64_t of(std::uint64_t ticks) const;
  std::int64_t of(std::chrono::steady_clock::time_point time) const;
  std::int64_t now() const { return end_.wall; }

 private:
  const Clocks begin_;
  const Clocks end_ = Clocks::now();
};

}  // namespace ccoll
