// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The results of `cc-show simulate`: the times of an operation's algorithms at some sizes and
/// numbers of ranks on one network. Independent of their presentation.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/measure/operations.hpp"
#include "ccoll/types.hpp"
#include "sim/simulate.hpp"

namespace ccoll::show {

struct Question {
  const bench::Operation* operation = nullptr;
  DataType type = DataType::float32;
  Rank root = 0;
  std::vector<Rank> ranks;
  std::vector<std::uint64_t> bytes;
  std::vector<Algorithm> algorithms;
  std::string network_name;
  sim::Network network;
  sim::SimulateOptions options = {};
};

/// One algorithm at one size.
struct Answer {
  std::optional<sim::Simulated> simulated;
  std::string reason;  ///< why there is none
  /// The time until every rank has its result; 0 if there is none.
  double us() const { return simulated ? static_cast<double>(simulated->outcome.ready) / 1e6 : 0; }
};

/// One number of ranks.
struct Sheet {
  Rank ranks = 1;
  std::vector<std::vector<Answer>> cells;  ///< by algorithm, then by size
  /// The index of the fastest algorithm at each size; empty if there are no times.
  std::vector<std::optional<std::size_t>> fastest;
};

/// The size at which one algorithm becomes faster than the one that was fastest before.
struct Crossing {
  Algorithm before;
  Algorithm after;
  /// Interpolated between two sizes, linearly in the logarithms of size and time.
  double bytes;
  double us;
};

Sheet simulate_sheet(const Question& question, Rank ranks);

std::vector<Crossing> crossings_of(const Question& question, const Sheet& sheet);

/// "42.4 ms": three digits.
std::string time_text(double us);

/// "10 ms": for a power of ten of microseconds.
std::string round_time_text(double us);

/// "279K": an approximate size.
std::string about_text(double bytes);

/// "~": a note on how a time was determined; empty if it was simulated as requested.
std::string mark_of(const Question& question, const Sheet& sheet, std::size_t algorithm,
                    std::size_t size);
inline constexpr const char* kRoundedMark = "+";
inline constexpr const char* kLineMark = "~";
inline constexpr const char* kRoundedText =
    "+ the buffer was taken a little longer, so that all of its blocks are equal";
inline constexpr const char* kLineText =
    "~ two shorter buffers were simulated and the line through them continued (a few percent too "
    "long)";

/// "leaders at 64 ranks: all ranks share one host", one for each algorithm and reason.
std::vector<std::string> reasons_of(const Question& question, const Sheet& sheet);

/// The table of one number of ranks, in lines of `width` columns; sizes without room go below the
/// others.
std::string sheet_text(const Question& question, const Sheet& sheet, std::size_t width);

}  // namespace ccoll::show
