// SPDX-License-Identifier: Apache-2.0
#include "runner.hpp"
#include "core/deadline.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/file_descriptor.hpp"
#include "records.hpp"

namespace ccoll::gpu_check {
namespace {

using Clock = std::chrono::steady_clock;

volatile sig_atomic_t told_to_stop = 0;

void stop(int /*signal*/) { told_to_stop = 1; }

/// While phases run, a signal is only noted.
class Stoppable {
 public:
  Stoppable() {
    told_to_stop = 0;
    struct sigaction noted = {};
    noted.sa_handler = stop;
    sigaction(SIGINT, &noted, &before_[0]);
    sigaction(SIGTERM, &noted, &before_[1]);
  }
  Stoppable(const Stoppable&) = delete;
  Stoppable& operator=(const Stoppable&) = delete;
  ~Stoppable() {
    sigaction(SIGINT, &before_[0], nullptr);
    sigaction(SIGTERM, &before_[1], nullptr);
  }

 private:
  struct sigaction before_[2] = {};
};

/// A process group of its own; ends with this process, however that ends.
pid_t start(const Phase& phase, int log) {
  std::vector<char*> arguments;
  for (const std::string& each : phase.command)
    arguments.push_back(const_cast<char*>(each.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) {
    if (child > 0) setpgid(child, child);
    return child;
  }
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  if (getppid() != parent || dup2(log, 1) < 0 || dup2(log, 2) < 0) _exit(126);
  execv(arguments[0], arguments.data());
  _exit(127);
}

/// Whether the child has ended by `limit`. It keeps its number, and so its group's, until reaped.
bool has_ended(pid_t child, Clock::time_point limit) {
  for (;;) {
    siginfo_t info = {};
    waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT);
    if (info.si_pid == child) return true;
    if (told_to_stop != 0 || Clock::now() >= limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

/// Ends whatever is left of the child and what it has started; the child's status. A process that a
/// driver holds may take a while to die.
int reap(pid_t child) {
  kill(-child, SIGKILL);
  const auto limit = Clock::now() + std::chrono::seconds(10);
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0 && Clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return status;
}

std::string last_line(const std::string& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

Ending ending_of(const Phase& phase, int status, const std::string& last) {
  if (WIFSIGNALED(status)) {
    return {phase.name, Outcome::wrong,
            fmt::format("killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)))};
  }
  switch (WEXITSTATUS(status)) {
    case kPassed:
      return {phase.name, Outcome::passed, last};
    case kWrong:
      return {phase.name, Outcome::wrong, last};
    case kNoDevice:
      return {phase.name, Outcome::no_device, last};
    case kIncomplete:
      return {phase.name, Outcome::incomplete, last};
    default:
      return {phase.name, Outcome::wrong,
              fmt::format("ended with status {}: {}", WEXITSTATUS(status), last)};
  }
}

Ending run(const Phase& phase, const std::string& out, Clock::time_point end_of_all) {
  const std::string log = out + "/" + phase.name + ".log";
  const FileDescriptor file(open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file.open()) return {phase.name, Outcome::incomplete, NotRecorded(log).what()};
  const auto begin = Clock::now();
  const pid_t child = start(phase, file.number());
  if (child < 0) return {phase.name, Outcome::incomplete, "no process could be made for it"};
  const auto limit = std::min(begin + phase.limit, end_of_all);
  const bool ended = has_ended(child, limit);
  const int status = reap(child);
  Ending ending;
  if (ended) {
    ending = ending_of(phase, status, last_line(log));
  } else if (told_to_stop != 0) {
    ending = {phase.name, Outcome::incomplete, "told to stop"};
  } else if (limit == end_of_all) {
    ending = {phase.name, Outcome::incomplete, "all time is used up"};
  } else {
    ending = {phase.name, Outcome::wrong,
              fmt::format("did not end within {} s; it had said: {}", phase.limit.count(),
                          last_line(log))};
  }
  ending.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return ending;
}

bool is_asked_for(const std::string& name, const std::vector<std::string>& only) {
  return only.empty() || std::ranges::find(only, name) != only.end();
}

std::ptrdiff_t count(const std::vector<Ending>& endings, Outcome outcome) {
  return std::ranges::count(endings, outcome, &Ending::outcome);
}

}  // namespace

std::string_view word(Outcome outcome) {
  switch (outcome) {
    case Outcome::passed:
      return "passed";
    case Outcome::wrong:
      return "WRONG";
    case Outcome::no_device:
      return "no device";
    case Outcome::incomplete:
      return "incomplete";
  }
  return "";
}

std::vector<Ending> run_phases(const std::vector<Phase>& phases, const RunOptions& options) {
  std::filesystem::create_directories(options.out);
  const Records records(options.out + "/results.jsonl");
  const auto end_of_all = deadline_after(options.budget);
  const Stoppable stoppable;
  std::vector<Ending> endings;
  for (const Phase& phase : phases) {
    const bool none = count(endings, Outcome::no_device) != 0;
    Ending ending{phase.name, Outcome::incomplete, ""};
    try {
      if (!is_asked_for(phase.name, options.only)) {
        ending.said = "not asked for";
      } else if (none) {
        ending.said = "no device";
      } else if (told_to_stop != 0) {
        ending.said = "told to stop";
      } else if (Clock::now() >= end_of_all) {
        ending.said = "no time left";
      } else {
        records.add({{"phase", phase.name}, {"what", "begin"}});
        ending = run(phase, options.out, end_of_all);
      }
      records.add({{"phase", ending.phase},
                   {"what", "end"},
                   {"outcome", word(ending.outcome)},
                   {"said", ending.said},
                   {"seconds", ending.seconds}});
    } catch (const NotRecorded& error) {
      // The table still tells what was found wrong.
      if (ending.outcome == Outcome::passed) ending.outcome = Outcome::incomplete;
      if (ending.outcome == Outcome::incomplete) ending.said = error.what();
    }
    endings.push_back(std::move(ending));
  }
  return endings;
}

std::string table(const std::vector<Ending>& endings) {
  std::string text = fmt::format("{:<13} {:<11} {:>8}  {}\n", "phase", "outcome", "seconds", "");
  for (const Ending& each : endings) {
    text += fmt::format("{:<13} {:<11} {:>8.1f}  {}\n", each.phase, word(each.outcome),
                        each.seconds, each.said);
  }
  text += fmt::format("{} passed, {} wrong, {} incomplete\n", count(endings, Outcome::passed),
                      count(endings, Outcome::wrong),
                      count(endings, Outcome::incomplete) + count(endings, Outcome::no_device));
  return text;
}

int status_of(const std::vector<Ending>& endings) {
  if (count(endings, Outcome::wrong) != 0) return kWrong;
  if (count(endings, Outcome::no_device) != 0) return kNoDevice;
  return count(endings, Outcome::passed) == 0 ? kWrong : kPassed;
}

}  // namespace ccoll::gpu_check
