// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Supervises a job's ranks until all have ended: forwards their output and signals, and ends the
/// others if one fails. A slow reader of the output blocks none of this.

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

/// One started rank. It stays a zombie until the job ends, so that its group's number is not reused
/// while that group may still be signalled.
struct RankProcess {
  /// One of its output streams; the reading end is closed at the stream's end, or was never open.
  struct Stream {
    FileDescriptor reading;
    int to = 1;
    LinePrefixer lines;
  };
  pid_t pid = 0;
  bool over = false;
  bool stopped = false;  ///< when it got the signal to end
  std::vector<Stream> streams;
};

class Supervisor final {
 public:
  /// `signals` is a signalfd for SIGCHLD and the signals to forward, all of them blocked. `dumps`
  /// is the directory for the ranks' dumps.
  Supervisor(const LaunchOptions& options, int signals, std::string dumps)
      : options_(options), signals_(signals), dumps_(std::move(dumps)) {}
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  /// Kills and reaps the rest of all groups.
  ~Supervisor();

  void add(RankProcess rank) { ranks_.push_back(std::move(rank)); }
  /// Returns the exit status when all ranks have ended and their output is written, or when a
  /// signal came while only output was left.
  int run();
  /// In the order in which they ended.
  const std::vector<RankEnd>& ends() const { return ends_; }

 private:
  using Clock = std::chrono::steady_clock;
  /// The progress of ending the other ranks.
  enum class Ending { no, reporting, told, killed };

  bool finished() const;
  int milliseconds_to_wait() const;
  void wait_for_something(int most_milliseconds);
  void pass_on(RankProcess::Stream& stream);
  void write_the_rest();
  Output& output_of(const RankProcess::Stream& stream);
  void flush(Output& output);
  void take_signals();
  /// True if some will come; a signal is forwarded only after them.
  bool ask_for_dumps();
  /// Whether the requested dumps are written or overdue.
  bool have_dumped();
  void forward_signal();
  void look_for_ends();
  std::vector<RankEnd> find_ends();
  void rank_is_over(const RankEnd& end);
  /// Ends the job without messages, because whoever read its output has stopped reading.
  void end_quietly();
  /// Notes which ranks are stopped.
  void look_for_stopped();
  /// If all remaining ranks are stopped, nobody may ever wake them.
  void look_who_is_left();
  /// "rank 2 (process 4711)", for those noted.
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
  int interrupted_ = 0;  // the signal that is forwarded, once ranks have given their dumps
  bool is_forwarded_ = false;

  /// Dumps that have been requested from ranks.
  struct Asked {
    int ranks = 0;
    std::filesystem::file_time_type since;
    Clock::time_point until;
    std::size_t files = 0;   // at the last check
    Clock::time_point next;  // check
  };
  std::optional<Asked> asked_;
  Ending ending_ = Ending::no;
  std::optional<Clock::time_point> next_push_;
  std::optional<Clock::time_point> grace_until_;    // after a signal was forwarded
  std::optional<Clock::time_point> stopped_until_;  // while only stopped ranks are left
  std::optional<Clock::time_point> last_end_;       // when the last rank was over
  bool is_quiet_ = false;                           // ranks' complaints are dropped
  int cut_short_ = 0;                               // a signal when only output was left
  std::array<Output, 2> outputs_{Output(1), Output(2)};
  std::vector<char> read_ =
      std::vector<char>(64 << 10);  // a pipe's worth; not every stack has room
  bool lost_output_ = false;        // on an output that should have taken it
};

}  // namespace ccoll
