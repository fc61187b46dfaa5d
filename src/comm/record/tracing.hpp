// SPDX-License-Identifier: Apache-2.0
#pragma once

/// CCOLL_TRACE: what this rank does in one communicator, recorded for `cc-show trace`.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ccoll/types.hpp"
#include "comm/record/trace/recorder.hpp"
#include "engine/plan.hpp"

namespace ccoll {

/// Called by the holder of the owner flag.
class Tracing {
 public:
  /// Whose trace it is.
  struct Whose {
    std::uint64_t job = 0;
    std::uint64_t communicator = 0;
    std::string name;
    Rank rank = 0;
    Rank size = 1;
    std::vector<std::uint32_t> host_of;
  };

  /// Null where it is not asked for, or cannot be done, of which it warns.
  static std::unique_ptr<Tracing> begin(const Whose& whose);

  /// For a plan that the request has made; must not live longer than this.
  std::unique_ptr<StepObserver> observer_for(const PlanRequest& request, bool ragged);

  /// As entries have it: the same clock.
  static std::uint64_t time_of(std::chrono::steady_clock::time_point time) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
  }

  struct Message {
    bool is_send = false;
    DataType type = DataType::uint8;
    Rank peer = 0;
    std::uint32_t tag = 0;
    std::uint64_t bytes = 0;
    std::uint64_t begun = 0;  ///< in nanoseconds of trace::now()
  };
  /// It is over.
  void message(const Message& message);
  /// Nothing more comes for now: what there is goes to the file.
  void write();

 private:
  explicit Tracing(std::unique_ptr<trace::Recorder> recorder) : recorder_(std::move(recorder)) {}

  const std::unique_ptr<trace::Recorder> recorder_;
  std::uint32_t plans_ = 0;
};

}  // namespace ccoll
