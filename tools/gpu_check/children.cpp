// SPDX-License-Identifier: Apache-2.0
#include "children.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <sstream>

namespace ccoll::gpu_check {
namespace {

pid_t start(const std::vector<std::string>& command, const std::vector<FileDescriptor>& inherited) {
  std::fflush(stdout);
  std::vector<char*> arguments;
  for (const std::string& each : command) arguments.push_back(const_cast<char*>(each.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const FileDescriptor& each : inherited) {
    if (each.open()) fcntl(each.number(), F_SETFD, 0);
  }
  execv(arguments[0], arguments.data());
  _exit(127);
}

}  // namespace

std::string own_path() {
  char path[4096] = {};
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  return length > 0 ? path : "";
}

pid_t start_program(const std::vector<std::string>& command) { return start(command, {}); }

pid_t start_peer(const std::string& kind, const std::string& handle,
                 const std::vector<FileDescriptor>& inherited) {
  return start({own_path(), "--peer-of", kind, handle}, inherited);
}

std::string PeerArguments::text(const std::string& kind, int size, int rank,
                                const PhaseContext& context) {
  return fmt::format("{} {} {} {} {}", kind, size, rank, context.seed, context.out);
}

PeerArguments::PeerArguments(const std::string& handle) {
  std::istringstream text(handle);
  text >> kind >> size >> rank >> seed >> std::ws;
  std::getline(text, out);
}

void await_peers(const std::vector<pid_t>& children, Findings& findings) {
  for (std::size_t i = 0; i < children.size(); i++) {
    findings.tried();
    int status = 0;
    waitpid(children[i], &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kPassed) continue;
    findings.wrong(WIFSIGNALED(status)
                       ? fmt::format("process {} was killed by signal {}", i, WTERMSIG(status))
                       : fmt::format("process {} ended with status {}", i, WEXITSTATUS(status)));
  }
}

}  // namespace ccoll::gpu_check
