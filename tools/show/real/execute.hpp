// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Runs a picture's programs as the library does: by its engine, over its links between ranks of
/// one process, on real memory. What comes out is compared with what the picture says.

#include <cstdint>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "show/model/picture.hpp"

namespace ccoll::show {

struct ExecuteOptions {
  std::string transport = "inproc";
  /// Also how long a call takes, by a thread for each rank.
  bool timed = false;
};

struct Executed {
  std::vector<Numbers> outputs;  ///< by rank: the elements of the blocks that it must have
  std::uint64_t wrong = 0;       ///< of these, others than the picture says
  double median_us = 0;          ///< of a call's slowest rank; 0 where it was not asked for
  std::uint64_t calls = 0;       ///< that were timed
};

/// Fails where the verifier objects to the programs, which then may never end, or where there is
/// too much to show.
Result<Executed> execute(const Picture& picture, const ExecuteOptions& options = {});

/// Each rank's result, and whether all are what they should be. `width`: columns.
std::string executed_text(const Picture& picture, const Executed& executed,
                          const std::string& transport, std::size_t width);

}  // namespace ccoll::show
