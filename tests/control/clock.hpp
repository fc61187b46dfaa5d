// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A clock for the tests of control. It goes on with the time, and a test can set it on: then what
/// would have to wait need not.

#include <atomic>

#include "core/deadline.hpp"

namespace ccoll::testing {

inline std::atomic<Clock::duration> skipped_time{Clock::duration::zero()};

/// All ranks of a test process decide by this clock, so it is never set back.
inline Clock::time_point now_with_skips() { return Clock::now() + skipped_time.load(); }
inline void skip(Clock::duration time) { skipped_time = skipped_time.load() + time; }

}  // namespace ccoll::testing
