// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Ends a hanging process of a phase, as wrong, and names its last step: CUDA's waits have no
/// limit.

#include <chrono>
#include <condition_variable>
#include <stop_token>
#include <string>
#include <thread>

#include "gpu_check/phases.hpp"
#include "system/locks.hpp"

namespace ccoll::gpu_check {

/// Any thread may report the next step; a step that takes longer than `patience` is a hang.
class Watchdog {
 public:
  Watchdog(const PhaseContext& context, std::chrono::seconds patience)
      : context_(context),
        patience_(patience),
        thread_([this](const std::stop_token& stop) { look(stop); }) {}

  void at(std::string what) { *step_.lock() = {std::move(what), Clock::now()}; }
  /// Until the next at(), whatever is waited for has a limit of its own.
  void rest() { at(""); }

 private:
  using Clock = std::chrono::steady_clock;

  struct Step {
    std::string what = "its beginning";
    Clock::time_point since = Clock::now();
  };

  void look(const std::stop_token& stop) {
    auto step = step_.lock();
    while (!bell_.wait_for(step, stop, std::chrono::milliseconds(200), [] { return false; }) &&
           !stop.stop_requested()) {
      if (step->what.empty() || Clock::now() - step->since < patience_) continue;
      Findings(context_).wrong(fmt::format("hangs for {} s in: {}", patience_.count(), step->what));
      std::_Exit(kWrong);
    }
  }

  const PhaseContext& context_;
  const std::chrono::seconds patience_;
  Guarded<Step> step_;
  std::condition_variable_any bell_;
  std::jthread thread_;  // last, because it uses all of the above
};

}  // namespace ccoll::gpu_check
