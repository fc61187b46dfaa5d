// SPDX-License-Identifier: Apache-2.0
#include "run/rank_process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/os_error.hpp"

namespace ccoll {

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return fail(ErrorKind::exhausted, "no pipe: {}", os_error(errno));
  }
  return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const auto& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

/// The child's part before its program. It may only do what is safe after a fork, because other
/// threads' locks may be held for ever. Returns the errno if exec failed.
int become(const ProcessPlan& plan, char* const* arguments, char* const* environment,
           pid_t launcher) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) ::_exit(1);
  // Move them away from 0, 1 and 2, which they may occupy.
  const int input = ::fcntl(plan.input, F_DUPFD_CLOEXEC, 3);
  const int output = ::fcntl(plan.output, F_DUPFD_CLOEXEC, 3);
  const int error = ::fcntl(plan.error, F_DUPFD_CLOEXEC, 3);
  if (input < 0 || output < 0 || error < 0) return errno;
  if (::dup2(input, 0) < 0 || ::dup2(output, 1) < 0 || ::dup2(error, 2) < 0) return errno;
  ::signal(SIGPIPE, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &plan.signal_mask, nullptr);
  ::execvpe(arguments[0], arguments, environment);
  return errno;
}

}  // namespace

Result<pid_t> start_process(const ProcessPlan& plan) {
  auto report = make_pipe();
  if (!report) return tl::unexpected(report.error());
  const auto arguments = pointers(plan.command);
  const auto environment = pointers(plan.environment);
  const pid_t launcher = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    return fail(ErrorKind::exhausted, "no process for '{}': {}", plan.command[0], os_error(errno));
  }
  if (pid == 0) {
    const int error = become(plan, arguments.data(), environment.data(), launcher);
    [[maybe_unused]] const auto ignored = ::write(report->writing.number(), &error, sizeof error);
    ::_exit(127);
  }
  // Also set here, so that the group exists before anyone signals it, whichever process is first.
  ::setpgid(pid, pid);
  report->writing.close();
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(report->reading.number(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return pid;  // the program's start closed it
  ::waitpid(pid, nullptr, 0);
  return fail(ErrorKind::invalid_argument, "cannot start '{}': {}", plan.command[0],
              os_error(error));
}

namespace {

/// Reads groups until the launcher ends this process or dies. `groups` was allocated before the
/// fork; the launcher has one thread then, so the heap is consistent here.
[[noreturn]] void watch_launcher(int line, const std::string& directory,
                                 std::vector<pid_t>& groups) {
  ::setsid();  // away from the terminal's signals
  ::prctl(PR_SET_NAME, "cc-run guard");
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::dup2(line, 0);
  ::close_range(1, ~0U, 0);  // a reader of the launcher's output must see its end
  std::size_t count = 0;
  for (;;) {
    pid_t group = 0;
    const ssize_t got = ::read(0, &group, sizeof group);
    if (got != sizeof group) break;
    if (count < groups.size()) groups[count++] = group;
  }
  for (std::size_t i = 0; i < count; ++i) ::kill(-groups[i], SIGKILL);
  std::error_code ignored;
  if (!directory.empty()) std::filesystem::remove_all(directory, ignored);
  ::_exit(0);
}

}  // namespace

Result<Guard> Guard::start(std::string directory, int most_groups) {
  auto line = make_pipe();
  if (!line) return tl::unexpected(line.error());
  std::vector<pid_t> groups(static_cast<std::size_t>(most_groups));
  const pid_t pid = ::fork();
  if (pid < 0) return fail(ErrorKind::exhausted, "no process: {}", os_error(errno));
  if (pid == 0) watch_launcher(line->reading.number(), directory, groups);
  return Guard(pid, std::move(line->writing));
}

void Guard::watch(pid_t group) {
  [[maybe_unused]] const auto ignored = ::write(line_.number(), &group, sizeof group);
}

Guard::~Guard() {
  if (!line_.open()) return;
  // A message is not enough, because the process may be stopped.
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

}  // namespace ccoll
