// SPDX-License-Identifier: Apache-2.0
#include "comm/record/times.hpp"

#include <algorithm>

#include "comm/record/trace/ticks.hpp"

namespace ccoll {
namespace {

template <typename Clock>
std::int64_t nanoseconds(std::chrono::time_point<Clock> time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace

Clocks Clocks::now() {
  return {processor_ticks(), nanoseconds(std::chrono::steady_clock::now()),
          nanoseconds(std::chrono::system_clock::now())};
}

std::int64_t Times::of(std::uint64_t ticks) const {
  // A counter that processors do not share may have been read on another one.
  ticks = std::clamp(ticks, begin_.ticks, std::max(begin_.ticks, end_.ticks));
  const auto passed = static_cast<double>(end_.ticks - begin_.ticks);
  const auto share = passed > 0 ? static_cast<double>(end_.ticks - ticks) / passed : 0;
  return end_.wall -
         static_cast<std::int64_t>(share * static_cast<double>(end_.steady - begin_.steady));
}

std::int64_t Times::of(std::chrono::steady_clock::time_point time) const {
  return end_.wall - (end_.steady - nanoseconds(time));
}

}  // namespace ccoll
