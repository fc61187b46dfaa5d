// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Starting processes that never outlive the launcher. Knows nothing of ranks' output or of when a
/// job is over.

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "core/result.hpp"
#include "system/file_descriptor.hpp"

namespace ccoll {

struct Pipe {
  FileDescriptor reading;
  FileDescriptor writing;
};

/// Both ends closed in programs that are started.
Result<Pipe> make_pipe();

struct ProcessPlan {
  std::vector<std::string> command;
  std::vector<std::string> environment;  ///< all of it, "NAME=value"
  int input = 0;                         ///< what becomes descriptors 0, 1 and 2
  int output = 1;
  int error = 2;
  sigset_t signal_mask{};
};

/// Starts it as the leader of a new process group; the kernel kills it when the calling thread
/// ends. Returns once the program runs or could not be executed.
Result<pid_t> start_process(const ProcessPlan& plan);

/// A small process that watches this one. If this one dies, it kills the process groups it was told
/// of, children of children too, and removes `directory` with all that is in it.
class Guard {
 public:
  static Result<Guard> start(std::string directory, int most_groups);
  Guard(Guard&&) = default;
  Guard& operator=(Guard&&) = delete;
  /// Ends the watch, and leaves groups and directory alone.
  ~Guard();

  void watch(pid_t group);

 private:
  Guard(pid_t pid, FileDescriptor line) : pid_(pid), line_(std::move(line)) {}
  pid_t pid_;
  FileDescriptor line_;
};

}  // namespace ccoll
