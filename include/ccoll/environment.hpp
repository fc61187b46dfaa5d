// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Who am I: rank and size, and where the store is, as the launcher's environment says it.

#include <functional>
#include <optional>
#include <string>

namespace ccoll {

/// What the launcher told this process.
struct Environment {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  ///< number among the ranks of this host, as far as the launcher says
  int local_size = 1;
  /// "ccoll", "torchrun", "openmpi", "mpich", "slurm", or "none" (one rank, alone).
  std::string launcher = "none";
  /// "tcp://host:port", "file:///path", or empty for one rank alone.
  std::string store;
  /// Whether rank 0 is to run the store's server at that address (false when cc-run does).
  bool rank0_serves_store = false;
  /// Tells jobs apart that meet at the same store: run id and restart count, or the job's id.
  std::string job;
  /// The file that holds the job's token, or empty.
  std::string token_file;

  using Lookup = std::function<std::optional<std::string>(const std::string&)>;

  /// Reads, in this order: CCOLL_RANK/CCOLL_SIZE, torchrun's variables, Open MPI's, MPICH's (PMI),
  /// Slurm's step variables. None is one rank, alone. CCOLL_STORE overrides the store's address.
  /// Throws Error{invalid_argument} for half an environment, naming what is missing.
  static Environment detect();
  /// The same from any source of variables.
  static Environment detect(const Lookup& lookup);
};

}  // namespace ccoll
