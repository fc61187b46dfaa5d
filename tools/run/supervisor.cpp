// SPDX-License-Identifier: Apache-2.0
#include "run/supervisor.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "core/deadline.hpp"
#include "core/text.hpp"
#include "rendezvous/process_tree.hpp"
#include "system/signals.hpp"
#include "system/write_all.hpp"

namespace ccoll {
namespace {

using namespace std::chrono_literals;

/// How long to wait for an ending rank before reporting others' ends.
constexpr std::chrono::seconds kEndingTime{1};
constexpr int kSignalBase = 128;  // a shell's status for "died of signal N" is 128 + N
/// How long to wait for output from descendants of ended ranks.
constexpr auto kLastWords = 1s;
/// A rank's connections close before its end is visible; this is the longest delay.
constexpr auto kUntilAnEndShows = 50ms;
/// The interval for checking the dumps' directory.
constexpr auto kBetweenLooks = 30ms;

/// "SIGKILL"; only one thread calls this.
std::string signal_name(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  return name ? std::string("SIG") + name : fmt::format("signal {}", signal);
}

/// Whether the process handles the signal, which would otherwise end it.
bool catches(pid_t process, int signal) {
  std::ifstream file(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(file, line);) {
    constexpr std::string_view kCaught = "SigCgt:";
    if (!line.starts_with(kCaught)) continue;
    const auto mask = std::strtoull(line.c_str() + kCaught.size(), nullptr, 16);
    return (mask >> (signal - 1) & 1) != 0;
  }
  return false;
}

/// Stopped by SIGSTOP, not by a debugger. The state stays available for later queries.
bool is_stopped(pid_t child) {
  siginfo_t info{};
  const int asked = ::waitid(P_PID, static_cast<id_t>(child), &info, WSTOPPED | WNOHANG | WNOWAIT);
  return asked == 0 && info.si_pid == child;
}

std::string seconds(std::chrono::milliseconds time) {
  return fmt::format("{} s", static_cast<double>(time.count()) / 1000);
}

}  // namespace

Supervisor::~Supervisor() {
  for (const auto& rank : ranks_) ::kill(-rank.pid, SIGKILL);
  for (const auto& rank : ranks_) ::waitpid(rank.pid, nullptr, 0);
}

int Supervisor::run() {
  while (!finished()) {
    wait_for_something(milliseconds_to_wait());
    push_the_end();
  }
  write_the_rest();
  if (status_ == 0 && cut_short_ != 0) return kSignalBase + cut_short_;
  // Ranks that were told decide on the status themselves. These only gave their dumps, for which a
  // signal may have cut their sleep short.
  if (status_ == 0 && interrupted_ != 0 && !is_forwarded_) return kSignalBase + interrupted_;
  return status_ == 0 && lost_output_ ? 1 : status_;
}

void Supervisor::write_the_rest() {
  for (auto& rank : ranks_) {
    for (auto& stream : rank.streams) {
      // There may have been no room for its last output: a full pipe, which may be longer than
      // read_. A process that still writes is not read for ever.
      const auto pipe_bytes = std::max(::fcntl(stream.reading.number(), F_GETPIPE_SZ), 1);
      for (std::size_t read = 0; read < static_cast<std::size_t>(pipe_bytes);
           read += read_.size()) {
        pollfd readable{stream.reading.number(), POLLIN, 0};
        if (!stream.reading.open() || ::poll(&readable, 1, 0) <= 0) break;
        pass_on(stream);
      }
      output_of(stream).add(stream.lines.finish());
      stream.reading.close();
    }
  }
  for (auto& output : outputs_) flush(output);
  const auto written = [](const Output& output) { return output.empty(); };
  while (cut_short_ == 0 && !std::ranges::all_of(outputs_, written)) wait_for_something(-1);
}

int Supervisor::running() const {
  return static_cast<int>(
      std::count_if(ranks_.begin(), ranks_.end(), [](const auto& rank) { return !rank.over; }));
}

bool Supervisor::finished() const {
  if (!last_end_) return false;
  if (cut_short_ != 0 || Clock::now() >= *last_end_ + kLastWords) return true;
  return std::none_of(ranks_.begin(), ranks_.end(), [](const auto& rank) {
    return std::any_of(rank.streams.begin(), rank.streams.end(),
                       [](const auto& stream) { return stream.reading.open(); });
  });
}

int Supervisor::milliseconds_to_wait() const {
  auto until = next_push_;
  const auto no_later_than = [&](Clock::time_point time) {
    until = std::min(until.value_or(time), time);
  };
  if (asked_) no_later_than(asked_->next);
  if (grace_until_) no_later_than(*grace_until_);
  if (stopped_until_) no_later_than(*stopped_until_);
  if (last_end_) until = *last_end_ + kLastWords;
  if (!until) return -1;
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(*until - Clock::now());
  return static_cast<int>(std::max(rest, 0ms).count());
}

void Supervisor::wait_for_something(int most_milliseconds) {
  std::vector<pollfd> watched{{signals_, POLLIN, 0}};
  for (const auto& output : outputs_) {
    watched.push_back({output.empty() ? -1 : output.descriptor(), POLLOUT, 0});
  }
  const std::size_t first_stream = watched.size();
  std::vector<RankProcess::Stream*> streams;
  for (auto& rank : ranks_) {
    for (auto& stream : rank.streams) {
      if (!stream.reading.open() || output_of(stream).full()) continue;
      watched.push_back({stream.reading.number(), POLLIN, 0});
      streams.push_back(&stream);
    }
  }
  if (::poll(watched.data(), watched.size(), most_milliseconds) <= 0) return;
  // If nobody reads the output, a rank may have died of that; see so before printing complaints.
  if (ending_ == Ending::no && is_output_unread()) {
    std::this_thread::sleep_for(kUntilAnEndShows);
    look_for_ends();
  }
  // Output comes first, so that a rank's words precede the news of its end.
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (watched[first_stream + i].revents != 0) pass_on(*streams[i]);
  }
  if (watched[0].revents != 0) take_signals();
  for (auto& output : outputs_) flush(output);
}

void Supervisor::pass_on(RankProcess::Stream& stream) {
  const ssize_t got = ::read(stream.reading.number(), read_.data(), read_.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    stream.reading.close();
    output_of(stream).add(stream.lines.finish());
    return;
  }
  if (is_quiet_ && stream.to == STDERR_FILENO) return;
  output_of(stream).add(stream.lines.feed({read_.data(), static_cast<std::size_t>(got)}));
  // If nobody reads our output, the rank must notice, too (SIGPIPE).
  if (output_of(stream).unread()) stream.reading.close();
}

Output& Supervisor::output_of(const RankProcess::Stream& stream) {
  return outputs_[stream.to == STDOUT_FILENO ? 0 : 1];
}

void Supervisor::flush(Output& output) {
  const int error = output.write_some();
  // A closed pipe (`| head`) is no failure; a full disk is.
  if (error == 0 || error == EPIPE) return;
  lost_output_ = true;
  if (output.descriptor() == STDOUT_FILENO) {
    say(fmt::format("standard output: {}; what ranks print is lost", std::strerror(error)));
  }
}

void Supervisor::take_signals() {
  signalfd_siginfo info{};
  while (::read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) continue;
    if (last_end_) {
      cut_short_ = signal;
    } else if (interrupted_ != 0) {
      asked_.reset();
      kill_all(fmt::format("{} again", signal_name(signal)));
    } else {
      interrupted_ = signal;
      if (!ask_for_dumps()) forward_signal();
    }
  }
  look_for_ends();
}

bool Supervisor::ask_for_dumps() {
  const auto signal = signal_named(options_.dump_signal);
  if (!signal || !options_.at_interrupt) return false;
  Asked asked;
  asked.since = std::filesystem::file_time_type::clock::now();
  for (const auto& rank : ranks_)
    if (!rank.over && catches(rank.pid, *signal) && ::kill(rank.pid, *signal) == 0) asked.ranks++;
  asked.next = Clock::now() + kBetweenLooks;
  asked.until = deadline_after(options_.dump_time);
  if (asked.ranks > 0) asked_ = asked;
  return asked_.has_value();
}

bool Supervisor::have_dumped() {
  const auto now = Clock::now();
  if (now < asked_->next) return false;
  asked_->next = now + kBetweenLooks;
  std::size_t files = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(dumps_, ignored))
    if (entry.last_write_time(ignored) >= asked_->since) files++;
  // A rank may have several communicators, which dump one after another.
  const bool still = files == std::exchange(asked_->files, files);
  return now >= asked_->until || (still && files >= static_cast<std::size_t>(asked_->ranks));
}

void Supervisor::forward_signal() {
  if (running() == 0) return;
  say(fmt::format("{} forwarded to {} ranks; a second one kills them, as {} from now will",
                  signal_name(interrupted_), running(), seconds(options_.grace_time)));
  signal_running(interrupted_);
  is_forwarded_ = true;
  grace_until_ = deadline_after(options_.grace_time);
}

void Supervisor::look_for_ends() {
  if (last_end_) return;
  std::vector<RankEnd> ends = find_ends();
  // A killed rank loses its connections before its end is visible, and others may already have
  // ended because of it.
  const auto limit = Clock::now() + kEndingTime;
  const auto others_end = [this] {
    return std::ranges::any_of(
        ranks_, [](const RankProcess& rank) { return !rank.over && is_ending(rank.pid); });
  };
  const auto failed = [](const RankEnd& end) { return !end.by_signal && end.code != 0; };
  while (status_ == 0 && std::ranges::any_of(ends, failed) && others_end() &&
         Clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::ranges::move(find_ends(), std::back_inserter(ends));
  }
  // Among ranks found together, the killed one is the cause, and the others report it.
  std::ranges::stable_partition(ends, &RankEnd::by_signal);
  for (auto& end : ends) {
    // For ranks that we ended ourselves, the first cause has been reported.
    end.expected = ending_ >= Ending::told || (end.by_signal && end.code == interrupted_);
    rank_is_over(end);
    ends_.push_back(end);
  }
  if (running() == 0) last_end_ = Clock::now();
  look_who_is_left();
}

std::vector<RankEnd> Supervisor::find_ends() {
  std::vector<RankEnd> ends;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].over) continue;
    siginfo_t info{};
    const auto pid = static_cast<id_t>(ranks_[rank].pid);
    if (::waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) continue;
    ranks_[rank].over = true;
    ends.push_back({.rank = options_.first_rank() + static_cast<int>(rank),
                    .process = ranks_[rank].pid,
                    .code = info.si_status,
                    .by_signal = info.si_code != CLD_EXITED,
                    .expected = false,
                    .stopped = ranks_[rank].stopped});
  }
  return ends;
}

void Supervisor::look_for_stopped() {
  for (auto& rank : ranks_)
    if (!rank.over) rank.stopped = is_stopped(rank.pid);
}

void Supervisor::look_who_is_left() {
  const auto goes_on = [](const RankProcess& rank) { return !rank.over && !is_stopped(rank.pid); };
  const bool nobody = !ends_.empty() && running() > 0 && std::ranges::none_of(ranks_, goes_on);
  if (!nobody)
    stopped_until_.reset();
  else if (!stopped_until_)
    stopped_until_ = deadline_after(options_.grace_time);
}

std::string Supervisor::stopped_ranks() const {
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    if (!ranks_[rank].over && ranks_[rank].stopped)
      names.push_back(fmt::format("rank {} (process {})",
                                  options_.first_rank() + static_cast<int>(rank),
                                  ranks_[rank].pid));
  constexpr std::size_t kMostNamed = 8;
  const auto more = names.size() > kMostNamed ? names.size() - kMostNamed : 0;
  names.resize(names.size() - more);
  return fmt::format("{}{}", joined(names), more ? fmt::format(" and {} more", more) : "");
}

void Supervisor::rank_is_over(const RankEnd& end) {
  const auto [rank, process, code, by_signal, expected, stopped] = end;
  if (!by_signal && code == 0) return;
  if (by_signal && code == SIGPIPE && ending_ == Ending::no && is_output_unread())
    return end_quietly();
  const bool first = status_ == 0;
  if (first) status_ = by_signal ? kSignalBase + code : code;
  auto text = by_signal ? fmt::format("rank {} died of {} ({})", rank, signal_name(code),
                                      ::sigdescr_np(code) ? ::sigdescr_np(code) : "unknown")
                        : fmt::format("rank {} exited with status {}", rank, code);
  const bool end_others = options_.on_failure == LaunchOptions::OnFailure::end && running() > 0;
  if (ending_ == Ending::no && end_others) {
    ending_ = Ending::reporting;
    next_push_ = deadline_after(options_.report_time);
    text += fmt::format("; the other{} {} to report", running() == 1 ? " has" : "s have",
                        seconds(options_.report_time));
  }
  if (!expected) say(text);
}

void Supervisor::end_quietly() {
  if (status_ == 0) status_ = kSignalBase + SIGPIPE;
  ending_ = Ending::killed;
  is_quiet_ = true;
  signal_running(SIGKILL);
}

void Supervisor::push_the_end() {
  if (asked_ && (running() == 0 || have_dumped())) {
    asked_.reset();
    look_for_stopped();
    std::vector<RankEnd> still;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (!ranks_[rank].over)
        still.push_back({.rank = options_.first_rank() + static_cast<int>(rank),
                         .process = ranks_[rank].pid,
                         .code = 0,
                         .by_signal = false,
                         .expected = true,
                         .stopped = ranks_[rank].stopped});
    if (!still.empty()) options_.at_interrupt(dumps_, still);
    forward_signal();
  }
  const auto now = Clock::now();
  if (running() > 0 && grace_until_ && now >= *grace_until_) {
    kill_all(fmt::format("{} has not ended them within {}", signal_name(interrupted_),
                         seconds(options_.grace_time)));
  } else if (running() > 0 && stopped_until_ && now >= *stopped_until_) {
    look_for_stopped();
    kill_all(fmt::format("stopped, as by SIGSTOP, for {} since all others have ended: {}",
                         seconds(options_.grace_time), stopped_ranks()));
  }
  if (!next_push_ || now < *next_push_) return;
  next_push_.reset();
  if (running() == 0) return;
  if (ending_ == Ending::reporting) {
    ending_ = Ending::told;
    look_for_stopped();
    say(fmt::format("ending {} rank{} (SIGTERM)", running(), running() == 1 ? "" : "s"));
    signal_running(SIGTERM);
    next_push_ = deadline_after(options_.end_time);
  } else if (ending_ == Ending::told) {
    kill_all(fmt::format("SIGTERM has not ended them within {}", seconds(options_.end_time)));
  }
}

void Supervisor::kill_all(const std::string& why) {
  ending_ = Ending::killed;
  next_push_.reset();
  grace_until_.reset();
  stopped_until_.reset();
  say(fmt::format("{}: killing {} rank{} (SIGKILL)", why, running(), running() == 1 ? "" : "s"));
  signal_running(SIGKILL);
}

void Supervisor::signal_running(int signal) {
  for (const auto& rank : ranks_) {
    if (!rank.over) ::kill(-rank.pid, signal);
  }
}

void Supervisor::say(const std::string& text) {
  outputs_[1].add(fmt::format("{}: {}\n", options_.name, text));
  flush(outputs_[1]);
}

}  // namespace ccoll
