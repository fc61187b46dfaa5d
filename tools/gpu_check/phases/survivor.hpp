// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A rank of a communicator that another rank breaks while calls are under way. Each survivor is
/// owed an error in time that names that rank, a working GPU, and a communicator of the survivors.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ccoll/store.hpp"
#include "gpu_check/phases.hpp"
#include "gpu_check/watchdog.hpp"

namespace ccoll::gpu_check {

/// The fault of its process or thread.
enum class Fault {
  killed,   ///< SIGKILL
  stopped,  ///< SIGSTOP: it is silent, but nothing of it closes
  absent,   ///< lives, but makes no further call
  aborted   ///< another of its threads calls abort()
};

std::string_view to_string(Fault fault);

struct FaultCase {
  Fault fault = Fault::killed;
  int size = 3;
  int victim = 1;
  std::uint64_t seed = 0;
};

/// The result of one rank. A victim that is killed or stopped never returns it.
struct Survival {
  std::uint64_t tried = 0;
  std::vector<std::string> wrong;
  double error_after_s = -1;  ///< from the fault to this rank's error
  std::string said;           ///< the error's text
};

Survival run_through(const FaultCase& what, int rank, const std::shared_ptr<Store>& store,
                     Watchdog& watchdog);

}  // namespace ccoll::gpu_check
