// SPDX-License-Identifier: Apache-2.0
#pragma once

/// An earlier run's JSON file, to compare rows with. Does not depend on measuring.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/report/row.hpp"
#include "core/result.hpp"

namespace ccoll::bench {

class Baseline {
 public:
  /// Reads the output of --json. Failures name the file and the error.
  static Result<Baseline> load(const std::string& path);

  /// The time of the same row (row_key), if the file has it and it is not 0; marks the row as
  /// measured.
  std::optional<double> usec_of(const Row& row);
  /// The rows that have not been requested.
  std::vector<std::string> unmeasured() const;
  /// "old.json (ccoll 0.1.0 on node1, 4 ranks over shm)".
  const std::string& description() const { return description_; }

 private:
  struct Entry {
    double usec;
    bool asked;
  };
  std::string description_;
  std::map<std::string, Entry> rows_;
};

}  // namespace ccoll::bench
