// SPDX-License-Identifier: Apache-2.0
#pragma once

/// CCOLL_TRACE: records a rank's doings in one communicator, for `cc-show trace`.

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
  /// The rank of a communicator that leaves a trace, or a dump.
  struct Whose {
    std::uint64_t job = 0;
    std::uint64_t communicator = 0;
    std::string name;
    Rank rank = 0;
    Rank size = 1;
    std::uint32_t job_rank = 0;
  };

  /// Null if it is not asked for, or cannot be done, which causes a warning.
  /// `host_of`: each rank's host, by number.
  static std::unique_ptr<Tracing> begin(const Whose& whose, std::vector<std::uint32_t> host_of);

  /// For a plan made by that request; the result must not outlive this.
  std::unique_ptr<StepObserver> observer_for(const PlanRequest& request, bool ragged);

  /// The time in the clock of entries.
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
  /// Records a message that is over.
  void message(const Message& message);
  /// Nothing more comes for now: writes everything to the file.
  void write();

 private:
  explicit Tracing(std::unique_ptr<trace::Recorder> recorder) : recorder_(std::move(recorder)) {}

  const std::unique_ptr<trace::Recorder> recorder_;
  std::uint32_t plans_ = 0;
};

}  // namespace ccoll
