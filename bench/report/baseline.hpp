// SPDX-License-Identifier: Apache-2.0
#pragma once

/// An earlier run's JSON file, to compare rows with. Knows nothing of measuring.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/report/row.hpp"
#include "core/result.hpp"

namespace ccoll::bench {

class Baseline {
 public:
  /// Reads what --json wrote. Failures name the file and what is wrong with it.
  static Result<Baseline> load(const std::string& path);

  /// The time of the same row (row_key), if the file has it and it is not 0; remembers that it was
  /// asked for.
  std::optional<double> usec_of(const Row& row);
  /// The rows that nobody asked for.
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
