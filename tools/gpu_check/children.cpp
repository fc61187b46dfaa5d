// SPDX-License-Identifier: Apache-2.0
#include "gpu_check/children.hpp"

#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <thread>

#include "core/deadline.hpp"
#include "system/variables.hpp"

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
  if (Until::here().next() != Until::Clock::time_point::max()) {
    const auto until = Until::here().next().time_since_epoch();
    setenv(kUntil, fmt::format("{}", until / std::chrono::nanoseconds(1)).c_str(), 1);
  }
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

std::string find_program(const std::string& name, const std::string& more) {
  std::istringstream folders(read_variable("PATH").value_or("") + ":" + more);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string program = folder + "/" + name;
    if (!folder.empty() && access(program.c_str(), X_OK) == 0) return program;
  }
  return {};
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

namespace {

/// Its status if it ends by the limit.
std::optional<int> status_by(pid_t child, std::chrono::steady_clock::time_point limit) {
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() >= limit) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return status;
}

}  // namespace

std::optional<int> status_within(pid_t child, std::chrono::seconds patience) {
  const auto ended = status_by(child, deadline_after(patience));
  if (!ended) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    return std::nullopt;
  }
  return WIFEXITED(*ended) ? WEXITSTATUS(*ended) : 128 + WTERMSIG(*ended);
}

void await_peers(const std::vector<pid_t>& children, Findings& findings,
                 std::chrono::seconds patience) {
  const auto limit = deadline_after(patience);
  for (std::size_t i = 0; i < children.size(); i++) {
    findings.tried();
    const auto ended = status_by(children[i], limit);
    if (!ended) {
      findings.wrong(
          fmt::format("process {} was killed: it had not ended after {} s", i, patience.count()));
      kill(children[i], SIGKILL);
      waitpid(children[i], nullptr, 0);
    } else if (WIFSIGNALED(*ended)) {
      findings.wrong(fmt::format("process {} was killed by signal {} ({})", i, WTERMSIG(*ended),
                                 strsignal(WTERMSIG(*ended))));
    } else if (WEXITSTATUS(*ended) == kIncomplete) {
      findings.leave_out(fmt::format("what process {} says", i));
    } else if (WEXITSTATUS(*ended) != kPassed) {
      findings.wrong(fmt::format("process {} ended with status {}", i, WEXITSTATUS(*ended)));
    }
  }
}

}  // namespace ccoll::gpu_check
