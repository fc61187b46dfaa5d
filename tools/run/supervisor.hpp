// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Stays with the started ranks of a job until all are over: passes their output on, forwards
/// signals, and ends the others when one fails. None of that waits for whoever reads the output.

#include <array>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "run/launch.hpp"
#include "run/line_prefixer.hpp"
#include "run/output.hpp"
#include "run/rank_process.hpp"

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
  /// `dumps` is the directory where ranks write theirs.
  Supervisor(const LaunchOptions& options, int signals, std::string dumps)
      : options_(options), signals_(signals), dumps_(std::move(dumps)) {}
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
  /// True where some are to come; then what was to be forwarded waits for them.
  bool ask_for_dumps();
  /// Whether those that were asked have written, or have taken too long.
  bool have_dumped();
  void forward_signal();
  void look_for_ends();
  std::vector<RankEnd> find_ends();
  void rank_is_over(const RankEnd& end);
  /// Nobody wants to hear of it: whoever read what the ranks print has heard enough.
  void end_quietly();
  /// Takes note of ranks that are stopped.
  void look_for_stopped();
  /// Where all that have not ended are stopped, nobody may ever wake them.
  void look_who_is_left();
  /// "rank 2 (process 4711)", of those noted.
  std::string stopped_ranks() const;
  void push_the_end();
  void kill_all(const std::string& why);
  void signal_running(int signal);
  int running() const;
  void say(const std::string& text);

  const LaunchOptions& options_;
  const int signals_;
  const std::string dumps_;
  std::vector<RankProcess> ranks_;
  std::vector<RankEnd> ends_;
  int status_ = 0;       // of the first rank that failed
  int interrupted_ = 0;  // the signal that is forwarded

  /// Dumps that ranks were asked for.
  struct Asked {
    int ranks = 0;
    std::filesystem::file_time_type since;
    Clock::time_point until;
    std::size_t files = 0;   // at the last look
    Clock::time_point next;  // look
  };
  std::optional<Asked> asked_;
  Ending ending_ = Ending::no;
  std::optional<Clock::time_point> next_push_;
  std::optional<Clock::time_point> grace_until_;    // after a signal was forwarded
  std::optional<Clock::time_point> stopped_until_;  // while only stopped ranks are left
  std::optional<Clock::time_point> last_end_;       // when the last rank was over
  bool is_quiet_ = false;                           // what ranks complain of is dropped
  int cut_short_ = 0;                               // the signal that came after that
  std::array<Output, 2> outputs_{Output(1), Output(2)};
  std::vector<char> read_ =
      std::vector<char>(64 << 10);  // a pipe's worth; not every stack has room
  bool lost_output_ = false;        // to one that should have taken it
};

}  // namespace ccoll
