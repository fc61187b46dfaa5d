// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Runs a picture's programs as the library does: with its engine, over its links between ranks of
/// one process, in real memory. The results are compared with the picture's.

#include <cstdint>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "show/model/picture.hpp"

namespace ccoll::show {

struct ExecuteOptions {
  std::string transport = "inproc";
  /// Also times a call, with a thread for each rank.
  bool timed = false;
};

struct Executed {
  std::vector<Numbers> outputs;  ///< by rank: the elements of its result blocks
  std::uint64_t wrong = 0;       ///< how many of these differ from the picture
  double median_us = 0;          ///< of a call's slowest rank; 0 if not timed
  std::uint64_t calls = 0;       ///< how many were timed
};

/// Fails if the verifier objects to the programs, which then may never end, or if there is too much
/// to show.
Result<Executed> execute(const Picture& picture, const ExecuteOptions& options = {});

/// Each rank's result, and whether all are correct. `width`: columns.
std::string executed_text(const Picture& picture, const Executed& executed,
                          const std::string& transport, std::size_t width);

}  // namespace ccoll::show
