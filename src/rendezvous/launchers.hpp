// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Reads the launchers' variables about this process. It reads variables only; environment.cpp
/// derives the rest (where the ranks meet).

#include <limits>
#include <optional>
#include <string>

#include "ccoll/environment.hpp"
#include "core/result.hpp"

namespace ccoll {

/// Checked access to environment variables. An empty one, or one without a name, counts as not set.
class Variables {
 public:
  explicit Variables(const Environment::Lookup& lookup) : lookup_(lookup) {}

  std::optional<std::string> text(const std::string& name) const;
  std::string text_or(const std::string& name, const std::string& otherwise) const;
  bool has(const std::string& name) const { return text(name).has_value(); }
  /// A decimal number from `least` to `most`; nullopt if not set.
  Result<std::optional<int>> number(const std::string& name, int least,
                                    int most = std::numeric_limits<int>::max()) const;

 private:
  const Environment::Lookup& lookup_;
};

/// A process as its launcher describes it.
struct Launched {
  std::string launcher;
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  /// Equal on all ranks of a job, different between jobs; empty if the launcher gives no name.
  std::string job;
  /// Makes a file's name unique to the job, if the launcher gives no address but the ranks share a
  /// host. If they cannot meet at a file, it is empty and `no_meeting` has the reason.
  std::string meeting;
  std::string no_meeting;
};

/// The first launcher whose variables are set: ccoll's own, torchrun, Open MPI, MPICH (PMI), a
/// Slurm step. Nullopt if there is none: then this is one rank alone.
Result<std::optional<Launched>> read_launcher(const Variables& variables);

}  // namespace ccoll
