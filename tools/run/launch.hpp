// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The launcher: starts the ranks of a job, or of one host's share of it, as processes of this host
/// and stays with them until all are over. What cc-run is made of; cc-bench starts its local ranks
/// with it too.

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/result.hpp"

namespace ccoll {

/// Most ranks that are started on one host: a slip of the finger must not fill its process table.
inline constexpr int kMostLocalRanks = 4096;
inline constexpr int kMostNodes = 65536;

/// Whether that many ranks can be asked for here: 1 to kMostLocalRanks.
Status check_rank_count(int ranks);

/// How the process of a rank came to its end.
struct RankEnd {
  int rank = 0;
  pid_t process = 0;
  int code = 0;            ///< its status, or the signal's number
  bool by_signal = false;  ///< whether it died of one
  bool expected = false;   ///< the launcher had ended it, or passed that signal on
  bool stopped = false;    ///< it was stopped (SIGSTOP) when it was to end
};

struct LaunchOptions {
  /// What happens to the others when a rank fails: they are ended, or go on.
  enum class OnFailure { end, go_on };

  int ranks = 1;  ///< on this host
  /// Hosts of the job, this one's number among them, and the address ("host:port") at which node 0
  /// serves the store. One node needs no address.
  int nodes = 1;
  int node = 0;
  std::string store;
  /// The program, looked up in PATH, and its arguments.
  std::vector<std::string> command;
  OnFailure on_failure = OnFailure::end;
  /// True: every line that a rank writes comes out whole behind "[rank] ". False: the ranks write
  /// to this process's standard output and error themselves.
  bool prefix = true;
  /// The file with the job's token; empty: a fresh token in a private file that is removed at the
  /// end, or with several nodes none, which only a loopback address can do without.
  std::string token_file;
  /// Where the ranks' dumps go when they fail (CCOLL_DUMP); empty: to a private directory that is
  /// removed at the end, or, where `at_end` is not set, as the environment says.
  std::string dumps;
  /// Is told where dumps are and how the ranks here ended, in that order, once all have.
  std::function<void(const std::string& dumps, const std::vector<RankEnd>& ends)> at_end;
  /// Is told where dumps are and which ranks still run, when a signal is to be forwarded that would
  /// end them and they have written what they do at that moment; where `dump_signal` is set.
  std::function<void(const std::string& dumps, const std::vector<RankEnd>& running)> at_interrupt;
  /// At which ranks write their dumps (CCOLL_DUMP_SIGNAL); only those are sent it that have taken
  /// charge of it. Empty: none.
  std::string dump_signal;
  /// How long they may take for that.
  std::chrono::milliseconds dump_time{1000};
  /// Further variables of every rank's environment.
  std::vector<std::pair<std::string, std::string>> variables;
  /// Who speaks, in messages on standard error.
  std::string name = "cc-run";
  /// How long the others may report and end by themselves before they are told to (SIGTERM).
  std::chrono::milliseconds report_time{5000};
  /// And how long from there until they are killed.
  std::chrono::milliseconds end_time{2000};
  /// How long ranks that were passed on a signal may take to end until they are killed; so long
  /// also those that are stopped (SIGSTOP) when all others have ended.
  std::chrono::milliseconds grace_time{10000};
  /// How long other nodes wait for node 0.
  std::chrono::milliseconds node_time{60000};

  /// The rank of the first process that is started here.
  int first_rank() const { return node * ranks; }
};

/// Whether they can be carried out, as far as can be told before anything is started.
Status check(const LaunchOptions& options);

/// Runs the job and returns the status to exit with: 0, or that of the first rank that failed (128
/// + the signal's number if it died of one), or 1 if what ranks printed was lost. Fails if the job
/// cannot be started, or the nodes were told different things; nothing of it is left then.
///
/// Each rank is the leader of a process group of its own and gets CCOLL_RANK (node by node),
/// CCOLL_SIZE, CCOLL_LOCAL_RANK, CCOLL_LOCAL_SIZE, CCOLL_STORE (a server in this process, on
/// loopback; with several nodes in node 0's), CCOLL_SERVE_STORE=0 and CCOLL_TOKEN_FILE. Rank 0
/// reads this process's standard input unless that is a terminal; the others read nothing.
///
/// SIGINT, SIGTERM and SIGHUP that this process gets (and does not ignore) go to all ranks, once
/// they have written their dumps if they are asked for these; a second one, or the end of
/// `grace_time`, kills them. When it returns, no process of the ranks' groups and no file of its own
/// is left; nor if this process is killed meanwhile. Blocks; call it from the thread that started
/// the process, before others run.
Result<int> launch(const LaunchOptions& options);

}  // namespace ccoll
