// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What each launcher's variables say about this process. Reads variables only; what follows from
/// them (where the ranks meet) is environment.cpp's business.

#include <optional>
#include <string>

#include "ccoll/environment.hpp"
#include "core/result.hpp"

namespace ccoll {

/// Checked access to environment variables. One that is empty, or has no name, counts as not set.
class Variables {
 public:
  explicit Variables(const Environment::Lookup& lookup) : lookup_(lookup) {}

  std::optional<std::string> text(const std::string& name) const;
  std::string text_or(const std::string& name, const std::string& otherwise) const;
  bool has(const std::string& name) const { return text(name).has_value(); }
  /// A decimal number from `least` to 2^31 - 1; nullopt when not set.
  Result<std::optional<int>> number(const std::string& name, int least) const;

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
  /// Equal on all ranks of a job, different between jobs; empty where the launcher says nothing.
  std::string job;
  /// The launcher named no address but the ranks share a host: what makes a file's name unique to
  /// the job there. Empty with the reason in `no_meeting` where they cannot meet so.
  std::string meeting;
  std::string no_meeting;
};

/// The first launcher whose variables are there: ccoll's own, torchrun, Open MPI, MPICH (PMI),
/// a Slurm step. Nullopt: none, one rank alone.
Result<std::optional<Launched>> read_launcher(const Variables& variables);

}  // namespace ccoll
