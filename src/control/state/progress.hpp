// SPDX-License-Identifier: Apache-2.0
#pragma once

/// State shared by the service thread and threads that wait in join() and leave().

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "control/wire.hpp"

namespace ccoll::control {

struct Progress {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Status> outcome;   ///< guarded by mutex: of the start-up; set once
  std::optional<Status> attempt;   ///< guarded by mutex: of the last StartUp::call_parent
  std::vector<PeerAddress> table;  ///< guarded by mutex: complete when outcome is a success
  std::uint64_t job = 0;           ///< guarded by mutex: the same
  std::string rank0_text;          ///< guarded by mutex: by rank 0, with success
  bool gone = false;               ///< guarded by mutex: leaving is over
};

}  // namespace ccoll::control
