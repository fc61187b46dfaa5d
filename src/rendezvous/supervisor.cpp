// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/supervisor.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "core/write_all.hpp"

namespace ccoll {
namespace {

using namespace std::chrono_literals;

constexpr int kSignalBase = 128;  // a shell's status for "died of signal N" is 128 + N
/// How long output is awaited from descendants of ranks that are over.
constexpr auto kLastWords = 1s;
/// A rank's connections close before its end can be asked for; so soon it can.
constexpr auto kUntilAnEndShows = 50ms;

/// "SIGKILL"; no two threads ask here.
std::string signal_name(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  return name ? std::string("SIG") + name : fmt::format("signal {}", signal);
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
  return status_ == 0 && lost_output_ ? 1 : status_;
}

void Supervisor::write_the_rest() {
  for (auto& rank : ranks_) {
    for (auto& stream : rank.streams) {
      // There may have been no room for what it said last.
      pollfd readable{stream.reading.number(), POLLIN, 0};
      if (stream.reading.open() && ::poll(&readable, 1, 0) > 0) pass_on(stream);
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
  // Where nobody reads any more, what is said may be about the one who has met that.
  if (ending_ == Ending::no && is_output_unread()) {
    std::this_thread::sleep_for(kUntilAnEndShows);
    look_for_ends();
  }
  // Output first: what a rank said comes before the news of its end.
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (watched[first_stream + i].revents != 0) pass_on(*streams[i]);
  }
  if (watched[0].revents != 0) take_signals();
  for (auto& output : outputs_) flush(output);
}

void Supervisor::pass_on(RankProcess::Stream& stream) {
  std::array<char, 65536> bytes;
  const ssize_t got = ::read(stream.reading.number(), bytes.data(), bytes.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    stream.reading.close();
    output_of(stream).add(stream.lines.finish());
    return;
  }
  if (is_quiet_ && stream.to == STDERR_FILENO) return;
  output_of(stream).add(stream.lines.feed({bytes.data(), static_cast<std::size_t>(got)}));
  // Nobody reads us any more: then the rank is to learn that too (SIGPIPE).
  if (output_of(stream).broken()) stream.reading.close();
}

Output& Supervisor::output_of(const RankProcess::Stream& stream) {
  return outputs_[stream.to == STDOUT_FILENO ? 0 : 1];
}

void Supervisor::flush(Output& output) {
  const int error = output.write_some();
  // That nobody reads any more (`| head`) is no failure; a full disk is.
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
      say(fmt::format("{} again: killing {} ranks", signal_name(signal), running()));
      ending_ = Ending::killed;
      next_push_.reset();
      signal_running(SIGKILL);
    } else {
      interrupted_ = signal;
      say(fmt::format("{} forwarded to {} ranks; a second one kills them", signal_name(signal),
                      running()));
      signal_running(signal);
    }
  }
  look_for_ends();
}

void Supervisor::look_for_ends() {
  if (last_end_) return;
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
  // Of ranks that are found together the killed one is the cause, and the others report it.
  std::ranges::stable_partition(ends, &RankEnd::by_signal);
  for (auto& end : ends) {
    // Of those that we ended ourselves the first cause has been told.
    end.expected = ending_ >= Ending::told || (end.by_signal && end.code == interrupted_);
    rank_is_over(end);
    ends_.push_back(end);
  }
  if (running() == 0) last_end_ = Clock::now();
}

void Supervisor::look_for_stopped() {
  for (auto& rank : ranks_) {
    if (rank.over) continue;
    std::ifstream file(fmt::format("/proc/{}/stat", rank.pid));
    std::string text((std::istreambuf_iterator<char>(file)), {});
    // The program's name, which may hold anything, stands in brackets before the state.
    const auto name_ends = text.rfind(')');
    rank.stopped = name_ends != text.npos && text.substr(name_ends, 3) == ") T";
  }
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
    next_push_ = Clock::now() + options_.report_time;
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
  if (!next_push_ || Clock::now() < *next_push_) return;
  next_push_.reset();
  if (running() == 0) return;
  if (ending_ == Ending::reporting) {
    ending_ = Ending::told;
    look_for_stopped();
    say(fmt::format("ending {} rank{} (SIGTERM)", running(), running() == 1 ? "" : "s"));
    signal_running(SIGTERM);
    next_push_ = Clock::now() + options_.end_time;
  } else if (ending_ == Ending::told) {
    ending_ = Ending::killed;
    say(fmt::format("killing {} rank{} (SIGKILL)", running(), running() == 1 ? "" : "s"));
    signal_running(SIGKILL);
  }
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
