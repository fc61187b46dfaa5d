// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The launcher: starts the ranks of a job, or of one host's share of it, as processes of this host
/// and supervises them until all have ended. cc-run and cc-bench (for local ranks) use it.

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/result.hpp"

namespace ccoll {

/// Most ranks on one host, so that a typing error does not fill its process table.
inline constexpr int kMostLocalRanks = 4096;
inline constexpr int kMostNodes = 65536;

/// Whether that many ranks are allowed here: 1 to kMostLocalRanks.
Status check_rank_count(int ranks);

/// How a rank's process ended.
struct RankEnd {
  int rank = 0;
  pid_t process = 0;
  int code = 0;            ///< its status, or the signal's number
  bool by_signal = false;  ///< whether a signal killed it
  bool expected = false;   ///< the launcher ended it, or forwarded that signal
  bool stopped = false;    ///< it was stopped (SIGSTOP) when it should have ended
};

struct LaunchOptions {
  /// Whether the other ranks are ended or go on if one fails.
  enum class OnFailure { end, go_on };

  int ranks = 1;  ///< on this host
  /// The number of hosts, this host's index, and the address ("host:port") at which node 0 serves
  /// the store. One node needs no address.
  int nodes = 1;
  int node = 0;
  std::string store;
  /// The program, looked up in PATH, and its arguments.
  std::vector<std::string> command;
  OnFailure on_failure = OnFailure::end;
  /// True: every line of a rank is written whole after "[rank] ". False: the ranks write directly
  /// to this process's standard output and error.
  bool prefix = true;
  /// The file with the job's token. Empty: a new token in a private file that is removed at the
  /// end; with several nodes there is none, which only a loopback address permits.
  std::string token_file;
  /// Where failing ranks write dumps (CCOLL_DUMP). Empty: a private directory that is removed at
  /// the end, or, without `at_end`, as in the environment.
  std::string dumps;
  /// Called once all ranks here have ended, with the dumps' directory and the ends in order.
  std::function<void(const std::string& dumps, const std::vector<RankEnd>& ends)> at_end;
  /// Called before a signal that would end the ranks is forwarded, after they have dumped their
  /// state, with the dumps' directory and the running ranks; only if `dump_signal` is set.
  std::function<void(const std::string& dumps, const std::vector<RankEnd>& running)> at_interrupt;
  /// The signal for dumps (CCOLL_DUMP_SIGNAL), sent only to ranks that handle it. Empty: none.
  std::string dump_signal;
  /// How long writing these dumps may take.
  std::chrono::milliseconds dump_time{1000};
  /// Further variables of every rank's environment.
  std::vector<std::pair<std::string, std::string>> variables;
  /// The program's name in messages on standard error.
  std::string name = "cc-run";
  /// How long the others may take to report and end before they get SIGTERM.
  std::chrono::milliseconds report_time{5000};
  /// How long they have from then until they are killed.
  std::chrono::milliseconds end_time{2000};
  /// How long ranks have to end after a forwarded signal before they are killed. Ranks that are
  /// stopped (SIGSTOP) when all others have ended get the same time.
  std::chrono::milliseconds grace_time{10000};
  /// How long other nodes wait for node 0.
  std::chrono::milliseconds node_time{60000};

  /// The rank of the first process started here.
  int first_rank() const { return node * ranks; }
};

/// Checks the options as far as possible before anything is started.
Status check(const LaunchOptions& options);

/// Runs the job and returns the exit status: 0, or that of the first failed rank (128 + the
/// signal's number if a signal killed it), or 1 if output of ranks was lost. Fails if the job
/// cannot be started, or the nodes disagree; then nothing of it is left.
///
/// Each rank leads its own process group and gets CCOLL_RANK (node by node), CCOLL_SIZE,
/// CCOLL_LOCAL_RANK, CCOLL_LOCAL_SIZE, CCOLL_STORE (a server on loopback in this process; with
/// several nodes node 0's), CCOLL_SERVE_STORE=0 and CCOLL_TOKEN_FILE. Rank 0 reads this process's
/// standard input unless that is a terminal; the others read nothing.
///
/// SIGINT, SIGTERM and SIGHUP to this process (unless ignored) are forwarded to all ranks, after
/// they have written any requested dumps. A second signal, or the end of `grace_time`, kills them.
/// No process of the ranks' groups and no file of its own outlives this call, even if this process
/// is killed. Blocks; call it from the thread that started the process, before other threads run.
Result<int> launch(const LaunchOptions& options);

}  // namespace ccoll
