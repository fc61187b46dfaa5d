// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Everything between ncclGroupStart and ncclGroupEnd on one thread: calls, and jobs, which make,
/// split and end communicators and run in a thread each.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "faces/nccl/call.hpp"
#include "faces/nccl/results.hpp"

namespace ccoll::nccl {

struct Job {
  const char* function;
  std::shared_ptr<Comm> comm;  ///< its state says that the job is in progress
  std::function<void()> run;   ///< throws if it fails
  /// Runs after a failure that is reported to the caller.
  std::function<void()> undo = [] {};
  /// The caller's result if the communicator does not block.
  ncclResult_t meanwhile = ncclInProgress;
};

bool is_group_open();
void begin_group();
/// Runs the noted jobs and calls at the end of the outermost group. Throws Refusal.
ncclResult_t end_group();

/// Notes it in the open group. Else runs it, or starts it if its communicator does not block.
ncclResult_t submit(Job job);
/// Notes it in the open group; false if none is open.
bool noted_in_group(const Call& call);

/// Notes the exception under way as a failure, also of an open group.
ncclResult_t note_in_group(const char* function) noexcept;

/// Runs the body of a function that may be part of a group. No exception leaves it.
template <typename Function>
ncclResult_t guarded_in_group(const char* function, Function&& body) noexcept {
  try {
    return body();
  } catch (...) {
    return note_in_group(function);
  }
}

}  // namespace ccoll::nccl
