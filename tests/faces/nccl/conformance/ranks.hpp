// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A job's ranks: as processes, as threads, and as communicators that one thread drives in groups.

#include <cstdint>
#include <string>
#include <vector>

#include "memory.hpp"
#include "nccl.h"

namespace conformance {

/// How the ranks of one process are created and driven.
enum class Mode {
  threads,   ///< a thread each, which creates its communicator concurrently
  polled,    ///< the same with nonblocking communicators
  grouped,   ///< one thread, which creates all communicators in a group
  init_all,  ///< one thread and ncclCommInitAll; one process
};
const char* name(Mode mode);

struct Layout {
  int processes = 1;
  int ranks_per_process = 1;
  Mode mode = Mode::threads;

  int ranks() const { return processes * ranks_per_process; }
  std::string text() const;
};

struct Request {
  Layout layout;
  bool full = false;
  std::uint64_t seed = 1;
  bool on_devices = false;
};

/// Runs all cases in child processes; prints errors to standard error. Returns whether there were
/// none.
bool run(const Request& request);

}  // namespace conformance
