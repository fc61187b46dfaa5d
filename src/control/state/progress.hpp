// SPDX-License-Identifier: Apache-2.0
#pragma once

/// State shared by the service thread and threads that wait in join() and leave().

#include <condition_variable>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/wire.hpp"
#include "system/locks.hpp"

namespace ccoll::control {

struct Progress {
  struct State {
    std::optional<Status> outcome;   ///< of the start-up; set once
    std::optional<Status> attempt;   ///< of the last StartUp::call_parent
    std::vector<PeerAddress> table;  ///< complete when outcome is a success
    std::uint64_t job = 0;           ///< the same
    std::string rank0_text;          ///< by rank 0, with success
    bool gone = false;               ///< leaving is over

    bool is_decided() const { return outcome.has_value(); }
    bool is_attempt_over() const { return attempt || outcome; }
  };
  Guarded<State> state;
  std::condition_variable changed;  ///< the state has
};

}  // namespace ccoll::control
