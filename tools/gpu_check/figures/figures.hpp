// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The parts of figures: what is timed, and beside what.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpu_check/figures/clockwork.hpp"
#include "gpu_check/figures/timed_team.hpp"
#include "gpu_check/phases.hpp"

namespace ccoll::gpu_check {

/// Where figures are told: in the log and in the results.
class FigureBook {
 public:
  FigureBook(const PhaseContext& context, Findings& findings)
      : context_(context), findings_(findings) {}

  /// How many bytes a second, also as a part of what `ceiling` has.
  void rate(const Candidate& timed, const Candidate& ceiling);
  /// `measured` is so many times `unit`.
  struct Result {
    std::string name;
    double measured;
    std::string unit;
    std::optional<double> target = {};
    bool is_least = false;  ///< else the target is the most
  };
  void result(const Result& result);
  /// What there is no time for.
  void leave_out(const std::string& name) { findings_.leave_out(name); }
  /// What cannot be timed here, and why.
  void skip(const std::string& name, const std::string& why);
  /// `wrong`: what the results are that they should not be, if anything.
  void judge(const std::string& wrong, const std::string& name);

 private:
  const PhaseContext& context_;
  Findings& findings_;
};

/// What figures have of the device.
struct FigureBench {
  FigureBook& book;
  Clockwork& clockwork;
  const Buffers& buffers;
  std::uint64_t buffer_bytes;
  int processors;  ///< multiprocessors
};

/// Seconds for a byte, of who only reads and who only writes.
struct Ceilings {
  double read, write;
};

/// Teams of 2, 4 and 8 ranks with buffers as large as there are.
void time_teams(const FigureBench& bench, const Ceilings& ceilings);
/// A graph of many small calls of a team of 4.
void time_small_calls(const FigureBench& bench);

}  // namespace ccoll::gpu_check
