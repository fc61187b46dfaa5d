// SPDX-License-Identifier: Apache-2.0
#include "gpu_check/children.hpp"

#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

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

using Clock = std::chrono::steady_clock;

/// Where one process has failed, the others may wait for it in vain: it may have left in the middle
/// of a call of a device. A run's time is short.
constexpr std::chrono::seconds kAfterAFailure{10};
constexpr std::chrono::milliseconds kBetweenLooks{5};

/// Its status if it has ended.
std::optional<int> status_of(pid_t child) {
  int status = 0;
  return waitpid(child, &status, WNOHANG) == 0 ? std::nullopt : std::optional(status);
}

bool is_failure(int status) {
  return !WIFEXITED(status) ||
         (WEXITSTATUS(status) != kPassed && WEXITSTATUS(status) != kIncomplete);
}

void end_now(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

/// Reports what became of a child that has ended.
void report(std::size_t number, int status, Findings& findings) {
  if (WIFSIGNALED(status))
    findings.wrong(fmt::format("process {} was killed by signal {} ({})", number, WTERMSIG(status),
                               strsignal(WTERMSIG(status))));
  else if (WEXITSTATUS(status) == kIncomplete)
    findings.leave_out(fmt::format("what process {} says", number));
  else if (WEXITSTATUS(status) != kPassed)
    findings.wrong(fmt::format("process {} ended with status {}", number, WEXITSTATUS(status)));
}

}  // namespace

std::optional<int> status_within(pid_t child, std::chrono::seconds patience) {
  const auto limit = deadline_after(patience);
  auto ended = status_of(child);
  for (; !ended && Clock::now() < limit; ended = status_of(child))
    std::this_thread::sleep_for(kBetweenLooks);
  if (!ended) {
    end_now(child);
    return std::nullopt;
  }
  return WIFEXITED(*ended) ? WEXITSTATUS(*ended) : 128 + WTERMSIG(*ended);
}

void await_peers(const std::vector<pid_t>& children, Findings& findings,
                 std::chrono::seconds patience) {
  auto limit = deadline_after(patience);
  std::vector<std::optional<int>> ended(children.size());
  std::optional<std::size_t> failed;
  const auto look = [&](std::size_t i) {
    ended[i] = status_of(children[i]);
    if (!ended[i] || failed || !is_failure(*ended[i])) return;
    failed = i;
    limit = std::min(limit, deadline_after(kAfterAFailure));
  };
  for (std::size_t left = children.size(); left > 0 && Clock::now() < limit;) {
    left = 0;
    for (std::size_t i = 0; i < children.size(); i++) {
      if (!ended[i]) look(i);
      left += ended[i] ? 0 : 1;
    }
    if (left > 0) std::this_thread::sleep_for(kBetweenLooks);
  }
  for (std::size_t i = 0; i < children.size(); i++) {
    findings.tried();
    if (ended[i]) {
      report(i, *ended[i], findings);
      continue;
    }
    end_now(children[i]);
    findings.wrong(failed ? fmt::format("process {} was killed: it had not ended {} s after "
                                        "process {} had failed",
                                        i, kAfterAFailure.count(), *failed)
                          : fmt::format("process {} was killed: it had not ended after {} s", i,
                                        patience.count()));
  }
}

}  // namespace ccoll::gpu_check
