// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Starts processes that never outlive the launcher. Does not depend on ranks' output or on the end
/// of a job.

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

/// Both ends are close-on-exec.
Result<Pipe> make_pipe();

struct ProcessPlan {
  std::vector<std::string> command;
  std::vector<std::string> environment;  ///< all of it, "NAME=value"
  int input = 0;                         ///< these become descriptors 0, 1 and 2
  int output = 1;
  int error = 2;
  sigset_t signal_mask{};
};

/// Starts it as the leader of a new process group; the kernel kills it when the calling thread
/// ends. Returns once the program runs or could not be executed.
Result<pid_t> start_process(const ProcessPlan& plan);

/// A small process that watches this one. If this one dies, it kills the registered process groups,
/// including grandchildren, and removes `directory` with its contents.
class Guard {
 public:
  static Result<Guard> start(std::string directory, int most_groups);
  Guard(Guard&&) = default;
  Guard& operator=(Guard&&) = delete;
  /// Stops watching, and leaves groups and directory alone.
  ~Guard();

  void watch(pid_t group);

 private:
  Guard(pid_t pid, FileDescriptor line) : pid_(pid), line_(std::move(line)) {}
  pid_t pid_;
  FileDescriptor line_;
};

}  // namespace ccoll
