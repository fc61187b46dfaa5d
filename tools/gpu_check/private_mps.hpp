// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A private daemon of NVIDIA's Multi-Process Service for this process's children; it never
/// outlives this process.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "system/file_descriptor.hpp"

namespace ccoll::gpu_check {

/// The daemon is not a child of this process, so a helper process ends it: when the pipe to this
/// process closes, however this process ends.
class PrivateMps {
 public:
  explicit PrivateMps(const std::string& out) {
    // The daemon changes its working directory.
    const std::string pipes = std::filesystem::absolute(out) / "mps";
    std::filesystem::create_directories(pipes);
    setenv("CUDA_MPS_PIPE_DIRECTORY", pipes.c_str(), 1);
    setenv("CUDA_MPS_LOG_DIRECTORY", pipes.c_str(), 1);
    runs_ = start_ending() && std::system("nvidia-cuda-mps-control -d") == 0;
  }
  PrivateMps(const PrivateMps&) = delete;
  PrivateMps& operator=(const PrivateMps&) = delete;
  ~PrivateMps() {
    held_.close();
    int status = 0;
    if (ending_ > 0) waitpid(ending_, &status, 0);
    if (runs_ && status != 0) std::printf("MPS did not end\n");
    unsetenv("CUDA_MPS_PIPE_DIRECTORY");
    unsetenv("CUDA_MPS_LOG_DIRECTORY");
  }
  bool runs() const { return runs_; }

 private:
  bool start_ending() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    const FileDescriptor heard(ends[0]);
    held_ = FileDescriptor(ends[1]);
    std::fflush(stdout);
    ending_ = fork();
    if (ending_ != 0) return ending_ > 0;
    setsid();  // the runner kills this process's group
    dup2(heard.number(), STDIN_FILENO);
    execl("/bin/sh", "sh", "-c", "read -r _; echo quit | timeout 10 nvidia-cuda-mps-control",
          static_cast<char*>(nullptr));
    _exit(127);
  }

  FileDescriptor held_;
  pid_t ending_ = -1;
  bool runs_ = false;
};

}  // namespace ccoll::gpu_check
