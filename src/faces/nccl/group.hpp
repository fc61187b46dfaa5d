// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All that lies between ncclGroupStart and ncclGroupEnd on one thread: jobs, which make, part and
/// end communicators and run in a thread each, and calls.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "faces/nccl/call.hpp"
#include "faces/nccl/results.hpp"

namespace ccoll::nccl {

struct Job {
  const char* function;
  std::shared_ptr<Comm> comm;  ///< whose state tells that it goes on
  std::function<void()> run;   ///< throws what it fails with
  /// After a failure that the caller is told of.
  std::function<void()> undo = [] {};
  /// The caller's result where the communicator does not block.
  ncclResult_t meanwhile = ncclInProgress;
};

bool is_group_open();
void begin_group();
/// Runs what was noted, where it is the outermost group's end. Throws Refusal.
ncclResult_t end_group();

/// Notes it in the open group. Else runs it, or has it run where its communicator does not block.
ncclResult_t submit(Job job);
/// Notes it in the open group; false where none is open.
bool noted_in_group(const Call& call);

/// Notes a failure: an open group has failed with it.
ncclResult_t note_in_group(const char* function) noexcept;

/// Runs what a function does that may be part of a group. No exception leaves it.
template <typename Function>
ncclResult_t guarded_in_group(const char* function, Function&& body) noexcept {
  try {
    return body();
  } catch (...) {
    return note_in_group(function);
  }
}

}  // namespace ccoll::nccl
