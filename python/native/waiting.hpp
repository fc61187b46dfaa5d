// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Calls of the library that only return at their end, so that Ctrl-C can end them.

#include <chrono>
#include <future>
#include <utility>

#include "pending.hpp"

namespace ccoll::python {

/// Runs `body` in a thread of its own, without the GIL. A signal whose handler raises has `stop`
/// called, which is to make `body` return soon.
template <typename Body, typename Stop>
auto interruptible(Body body, Stop stop) {
  using namespace std::chrono_literals;
  const Inside here;
  auto result = std::async(std::launch::async, std::move(body));
  for (;;) {
    std::future_status status;
    {
      const nb::gil_scoped_release away;
      status = result.wait_for(50ms);
      if (status != std::future_status::ready && Inside::is_ending()) {
        stop();
        result.wait();
        continue;
      }
    }
    if (status == std::future_status::ready) return result.get();
    if (PyErr_CheckSignals() != 0) {
      nb::python_error raised;
      {
        const nb::gil_scoped_release away;
        stop();
        result.wait();
      }
      throw raised;
    }
  }
}

}  // namespace ccoll::python
