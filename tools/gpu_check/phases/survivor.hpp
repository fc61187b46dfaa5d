// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A rank of a communicator that one of its ranks breaks while calls are under way, and what each
/// of the others is owed: an error in time that names that rank, a GPU that goes on, and a
/// communicator of those that are left.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ccoll/store.hpp"
#include "gpu_check/phases.hpp"
#include "gpu_check/watchdog.hpp"

namespace ccoll::gpu_check {

/// What its process or thread does.
enum class Fault {
  killed,   ///< SIGKILL
  stopped,  ///< SIGSTOP: it is silent, and nothing of it closes
  absent,   ///< makes no further call, and lives
  aborted   ///< another of its threads calls abort()
};

std::string_view to_string(Fault fault);

struct FaultCase {
  Fault fault = Fault::killed;
  int size = 3;
  int victim = 1;
  std::uint64_t seed = 0;
};

/// Of one rank. The victim that is killed or stopped does not come back from it.
struct Survival {
  std::uint64_t tried = 0;
  std::vector<std::string> wrong;
  double error_after_s = -1;  ///< from what the victim did to this rank's error
  std::string said;           ///< the error
};

Survival run_through(const FaultCase& what, int rank, const std::shared_ptr<Store>& store,
                     Watchdog& watchdog);

}  // namespace ccoll::gpu_check
