// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The parts of figures: the timed work and its reference.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpu_check/figures/clockwork.hpp"
#include "gpu_check/figures/timed_team.hpp"
#include "gpu_check/phases.hpp"

namespace ccoll::gpu_check {

/// Reports figures in the log and in the results.
class FigureBook {
 public:
  FigureBook(const PhaseContext& context, Findings& findings)
      : context_(context), findings_(findings) {}

  /// Bytes per second, also as a share of `ceiling`.
  void rate(const Candidate& timed, const Candidate& ceiling);
  /// `measured` as a multiple of `unit`.
  struct Result {
    std::string name;
    double measured;
    std::string unit;
    std::optional<double> target = {};
    bool is_least = false;  ///< else the target is the most
  };
  void result(const Result& result);
  /// Reports a figure that there is no time for.
  void leave_out(const std::string& name) { findings_.leave_out(name); }
  /// Reports a figure that cannot be timed here, with the reason.
  void skip(const std::string& name, const std::string& why);
  /// `wrong`: a description of wrong results, if any.
  void judge(const std::string& wrong, const std::string& name);

 private:
  const PhaseContext& context_;
  Findings& findings_;
};

/// The device that figures are measured on.
struct FigureBench {
  FigureBook& book;
  Clockwork& clockwork;
  const Buffers& buffers;
  std::uint64_t buffer_bytes;
  int processors;  ///< multiprocessors
};

/// Seconds per byte of plain reads and of plain writes.
struct Ceilings {
  double read, write;
};

/// Teams of 2, 4 and 8 ranks with the largest possible buffers.
void time_teams(const FigureBench& bench, const Ceilings& ceilings);
/// A graph of many small calls of a team of 4.
void time_small_calls(const FigureBench& bench);

}  // namespace ccoll::gpu_check
