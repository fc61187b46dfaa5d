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

pid_t start_peer(const std::string& kind, const std::string& handle,
                 const std::vector<FileDescriptor>& inherited) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const FileDescriptor& each : inherited) {
    if (each.open()) fcntl(each.number(), F_SETFD, 0);
  }
  execl("/proc/self/exe", "run", "--peer-of", kind.c_str(), handle.c_str(), nullptr);
  _exit(127);
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
