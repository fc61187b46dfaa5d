// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The rank and size of this process, and where the store is, from the launcher's environment.

#include <functional>
#include <optional>
#include <string>

#include "ccoll/version.hpp"

namespace ccoll {

/// The launcher's word to this process.
struct CCOLL_API Environment {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  ///< number among the ranks of this host, as far as the launcher says
  int local_size = 1;
  /// "ccoll", "torchrun", "openmpi", "mpich", "slurm", or "none" (one rank, alone).
  std::string launcher = "none";
  /// "tcp://host:port", "file:///path", or empty for one rank alone.
  std::string store;
  /// Whether rank 0 is to run the store's server at that address, unless one runs there already.
  /// False under cc-run, which runs it (CCOLL_SERVE_STORE=0), and for files.
  bool rank0_serves_store = false;
  /// Whether `store` is a file of this host that ccoll named itself, after the user and the
  /// launcher's job, because the launcher gave no address: the last rank to leave removes it.
  bool meeting_place = false;
  /// Distinguishes jobs that meet at the same store: run id and restart count, or the job's id.
  /// CCOLL_JOB overrides it.
  std::string job;
  /// The file that holds the job's token, or empty.
  std::string token_file;

  using Lookup = std::function<std::optional<std::string>(const std::string&)>;

  /// Reads, in this order: CCOLL_RANK/CCOLL_SIZE, torchrun's variables, Open MPI's, MPICH's (PMI),
  /// Slurm's step variables. Without any, it is one rank, alone. An empty one counts as not set.
  ///
  /// The store's address is taken from the first of: CCOLL_STORE ("tcp://host:port",
  /// "file:///path", or "env://" for the next); MASTER_ADDR and MASTER_PORT (CCOLL_PORT instead of
  /// the latter, because torchrun holds that port itself); a file of this host named after the user
  /// and the launcher's job. One rank alone needs none.
  ///
  /// Throws Error{invalid_argument} if only a part of the environment is set, naming the missing
  /// one; if values cannot be right; and if ranks on several hosts have no address to meet at.
  static Environment detect();
  /// The same from any source of variables.
  static Environment detect(const Lookup& lookup);
};

}  // namespace ccoll
