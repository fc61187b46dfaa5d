// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Time that a test really needs. To wait for something that comes, use eventually() or
/// falls_asleep().

#include <chrono>
#include <thread>

namespace ccoll::testing {

/// This thread's rank is late. Its peers wait meanwhile in the kernel, on other threads or in other
/// processes, which follow no clock of a test.
inline void be_late(std::chrono::microseconds time) { std::this_thread::sleep_for(time); }

/// Leaves time for what must not happen, or for what nobody can see. Threads and the kernel take
/// real time to do it.
inline void leave_time(std::chrono::microseconds time) { std::this_thread::sleep_for(time); }

}  // namespace ccoll::testing
