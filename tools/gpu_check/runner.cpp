// SPDX-License-Identifier: Apache-2.0
#include "gpu_check/runner.hpp"
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
#include <thread>

#include "gpu_check/records.hpp"
#include "system/file_descriptor.hpp"

namespace ccoll::gpu_check {
namespace {

using Clock = std::chrono::steady_clock;

volatile sig_atomic_t told_to_stop = 0;

void stop(int /*signal*/) { told_to_stop = 1; }

/// While phases run, signals are only noted.
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

/// The file that collects all output of phases; it is printed here from that file.
class Log {
 public:
  explicit Log(std::string path)
      : path_(std::move(path)),
        file_(open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
    if (file_.open())
      printed_ = lseek(file_.number(), 0, SEEK_END);
    else
      refused_ = NotRecorded(path_).what();
  }

  /// The reason why it cannot be written; empty if it can.
  const std::string& refused() const { return refused_; }
  int number() const { return file_.number(); }

  /// A line of the runner's own; a failure to write it is harmless.
  void say(const std::string& line) {
    const std::string text = line + "\n";
    if (write(number(), text.data(), text.size()) < 0) std::fputs(text.c_str(), stdout);
    pass_on();
  }
  /// Prints the output since the last call.
  void pass_on() {
    char piece[4096];
    for (;;) {
      const ssize_t bytes = pread(number(), piece, sizeof piece, printed_);
      if (bytes <= 0) break;
      std::fwrite(piece, 1, static_cast<std::size_t>(bytes), stdout);
      keep_last_line({piece, static_cast<std::size_t>(bytes)});
      printed_ += bytes;
    }
    std::fflush(stdout);
  }
  /// The last line printed since begin_phase().
  std::string last_line() const { return line_.empty() ? last_line_ : line_; }
  void begin_phase() {
    line_.clear();
    last_line_.clear();
  }

 private:
  void keep_last_line(std::string_view piece) {
    for (const char each : piece) {
      if (each != '\n') {
        line_ += each;
      } else if (!line_.empty()) {
        last_line_ = std::move(line_);
        line_.clear();
      }
    }
  }

  const std::string path_;
  const FileDescriptor file_;
  std::string refused_;
  off_t printed_ = 0;
  std::string line_, last_line_;  ///< the unfinished line, and the last finished one
};

/// When a phase should skip the rest: this long before it would be ended.
Clock::time_point last_call(Clock::time_point begin, Clock::time_point limit) {
  return limit - std::max<Clock::duration>((limit - begin) / 4, std::chrono::seconds(2));
}

/// Starts a process group, which ends with this process, however this ends.
pid_t start(const Phase& phase, int log, Clock::time_point until) {
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
  setenv(kUntil, fmt::format("{}", until.time_since_epoch() / std::chrono::nanoseconds(1)).c_str(),
         1);
  if (getppid() != parent || dup2(log, 1) < 0 || dup2(log, 2) < 0) _exit(126);
  execv(arguments[0], arguments.data());
  _exit(127);
}

/// Whether the child has ended by `limit`. It keeps its number, and so its group's, until reaped.
bool has_ended(pid_t child, Clock::time_point limit, Log& log) {
  for (;;) {
    log.pass_on();
    siginfo_t info = {};
    waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT);
    if (info.si_pid == child) return true;
    if (told_to_stop != 0 || Clock::now() >= limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

/// Ends the rest of the child's process group; returns the child's status. A process that a driver
/// holds may die slowly.
int reap(pid_t child) {
  kill(-child, SIGKILL);
  const auto limit = Clock::now() + std::chrono::seconds(10);
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0 && Clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return status;
}

Ending ending_of(const Phase& phase, int status, const std::string& last) {
  if (WIFSIGNALED(status)) {
    return {phase.name, Outcome::wrong,
            fmt::format("killed by signal {} ({}); it had said: {}", WTERMSIG(status),
                        strsignal(WTERMSIG(status)), last)};
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

Ending run(const Phase& phase, Log& log, Clock::time_point end_of_all) {
  if (!log.refused().empty()) return {phase.name, Outcome::incomplete, log.refused()};
  const auto begin = Clock::now();
  const auto limit = std::min(begin + phase.limit, end_of_all);
  log.say(fmt::format("== {}: at most {:.0f} s ==", phase.name,
                      std::chrono::duration<double>(limit - begin).count()));
  log.begin_phase();
  const pid_t child = start(phase, log.number(), last_call(begin, limit));
  if (child < 0) return {phase.name, Outcome::incomplete, "no process could be made for it"};
  const bool ended = has_ended(child, limit, log);
  const int status = reap(child);
  log.pass_on();
  Ending ending;
  if (ended) {
    ending = ending_of(phase, status, log.last_line());
  } else if (told_to_stop != 0) {
    ending = {phase.name, Outcome::incomplete, "told to stop"};
  } else if (limit == end_of_all) {
    ending = {phase.name, Outcome::incomplete,
              "all time is used up; it had said: " + log.last_line()};
  } else {
    ending = {phase.name, Outcome::wrong,
              fmt::format("did not end within {} s; it had said: {}", phase.limit.count(),
                          log.last_line())};
  }
  ending.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  log.say(fmt::format("== {}: {} after {:.1f} s: {} ==", phase.name, word(ending.outcome),
                      ending.seconds, ending.said));
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

namespace {

/// Runs phases one after another, while there is reason to go on.
class Sequence {
 public:
  explicit Sequence(const RunOptions& options)
      : options_(options),
        end_of_all_(deadline_after(options.budget)),
        records_(options.out + "/results.jsonl"),
        log_(options.out + "/log.txt") {}

  std::vector<Ending> run(const std::vector<Phase>& phases) {
    if (options_.health && options_.budget > std::chrono::seconds(0)) {
      const Ending health = look();
      if (health.outcome != Outcome::passed) bar(health);
      keep(health);
    }
    for (const Phase& phase : phases) {
      const bool is_run = why_not(phase).empty();
      const Ending ending = is_run ? recorded(phase, log_) : left_out(phase, why_not(phase));
      if (ending.outcome == Outcome::no_device) bar(ending);
      keep(ending);
      if (is_run && ending.outcome != Outcome::passed) look_after(phase.name);
    }
    return std::move(endings_);
  }

 private:
  /// Why the phase is not run; empty if it is.
  std::string why_not(const Phase& phase) const {
    if (!is_asked_for(phase.name, options_.only)) return "not asked for";
    if (!barred_.empty()) return barred_;
    if (told_to_stop != 0) return "told to stop";
    return Clock::now() >= end_of_all_ ? "no time left" : "";
  }
  void bar(const Ending& ending) {
    barred_ = ending.outcome == Outcome::no_device ? "no device"
                                                   : "the GPU does not work: " + ending.said;
  }
  void keep(const Ending& ending) {
    endings_.push_back(ending);
    if (options_.told) options_.told(endings_);
  }

  Ending look() { return recorded(*options_.health, log_); }
  /// A device that was left with much work may need a moment.
  void look_after(const std::string& name) {
    const auto has_time = [&] { return told_to_stop == 0 && Clock::now() < end_of_all_; };
    if (!options_.health || !barred_.empty() || !has_time()) return;
    Ending ending = look();
    if (ending.outcome != Outcome::passed && has_time()) {
      std::this_thread::sleep_for(options_.rest);
      ending = look();
    }
    if (ending.outcome == Outcome::passed || !has_time()) return;
    bar(ending);
    ending.phase += " after " + name;
    ending.outcome = Outcome::wrong;
    keep(ending);
  }

  Ending left_out(const Phase& phase, const std::string& why) {
    return written({phase.name, Outcome::incomplete, why});
  }
  Ending recorded(const Phase& phase, Log& log) {
    try {
      records_.add({{"phase", phase.name}, {"what", "begin"}});
    } catch (const NotRecorded& error) {
      return {phase.name, Outcome::incomplete, error.what()};
    }
    return written(ccoll::gpu_check::run(phase, log, end_of_all_));
  }
  Ending written(Ending ending) {
    try {
      records_.add({{"phase", ending.phase},
                    {"what", "end"},
                    {"outcome", word(ending.outcome)},
                    {"said", ending.said},
                    {"seconds", ending.seconds}});
    } catch (const NotRecorded& error) {
      // The table still shows the errors found.
      if (ending.outcome == Outcome::passed) ending.outcome = Outcome::incomplete;
      if (ending.outcome == Outcome::incomplete) ending.said = error.what();
    }
    return ending;
  }

  const RunOptions& options_;
  const Clock::time_point end_of_all_;
  const Records records_;
  Log log_;
  std::vector<Ending> endings_;
  std::string barred_;  ///< why no more phases run
};

}  // namespace

std::vector<Ending> run_phases(const std::vector<Phase>& phases, const RunOptions& options) {
  std::filesystem::create_directories(options.out);
  const Stoppable stoppable;
  return Sequence(options).run(phases);
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
  // A working GPU shows nothing about ccoll.
  const bool shows = std::ranges::any_of(endings, [](const Ending& each) {
    return each.outcome == Outcome::passed && each.phase != "health";
  });
  return shows ? kPassed : kWrong;
}

}  // namespace ccoll::gpu_check
