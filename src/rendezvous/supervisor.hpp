// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Stays with the started ranks of a job until all are over: passes their output on, forwards
/// signals, and ends the others when one fails. None of that waits for whoever reads the output.

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "rendezvous/launch.hpp"
#include "rendezvous/line_prefixer.hpp"
#include "rendezvous/output.hpp"
#include "rendezvous/rank_process.hpp"

namespace ccoll {

/// One started rank. It stays a zombie until the job ends, so that its group's number is not given
/// to anyone else while that group may still be signalled.
struct RankProcess {
  /// One of its output streams; the reading end is closed at its end, or never open.
  struct Stream {
    FileDescriptor reading;
    int to = 1;
    LinePrefixer lines;
  };
  pid_t pid = 0;
  bool over = false;
  bool stopped = false;  ///< when it was told to end
  std::vector<Stream> streams;
};

class Supervisor final {
 public:
  /// `signals` is a signalfd of SIGCHLD and of what is to be forwarded, all of them blocked.
  Supervisor(const LaunchOptions& options, int signals) : options_(options), signals_(signals) {}
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  /// Kills and reaps what is left of all groups.
  ~Supervisor();

  void add(RankProcess rank) { ranks_.push_back(std::move(rank)); }
  /// Returns when all ranks are over and their output is written, or a signal came while it was
  /// only that: the status to exit with.
  int run();
  /// In the order in which they ended.
  const std::vector<RankEnd>& ends() const { return ends_; }

 private:
  using Clock = std::chrono::steady_clock;
  /// How far the ending of the others has come.
  enum class Ending { no, reporting, told, killed };

  bool finished() const;
  int milliseconds_to_wait() const;
  void wait_for_something(int most_milliseconds);
  void pass_on(RankProcess::Stream& stream);
  void write_the_rest();
  Output& output_of(const RankProcess::Stream& stream);
  void flush(Output& output);
  void take_signals();
  void look_for_ends();
  void rank_is_over(const RankEnd& end);
  /// Nobody wants to hear of it: whoever read what the ranks print has heard enough.
  void end_quietly();
  /// Takes note of ranks that are stopped.
  void look_for_stopped();
  void push_the_end();
  void signal_running(int signal);
  int running() const;
  void say(const std::string& text);

  const LaunchOptions& options_;
  const int signals_;
  std::vector<RankProcess> ranks_;
  std::vector<RankEnd> ends_;
  int status_ = 0;       // of the first rank that failed
  int interrupted_ = 0;  // the signal that was forwarded
  Ending ending_ = Ending::no;
  std::optional<Clock::time_point> next_push_;
  std::optional<Clock::time_point> last_end_;  // when the last rank was over
  bool is_quiet_ = false;                      // what ranks complain of is dropped
  int cut_short_ = 0;                          // the signal that came after that
  std::array<Output, 2> outputs_{Output(1), Output(2)};
  bool lost_output_ = false;  // to one that should have taken it
};

}  // namespace ccoll
