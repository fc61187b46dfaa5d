// SPDX-License-Identifier: Apache-2.0
#pragma once

/// `cc-bench tune`: times every algorithm over one kind of links and keeps the costs with which the
/// library's model best fits the times.

#include <string>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "bench/command/options.hpp"
#include "bench/report/row.hpp"
#include "ccoll/communicator.hpp"

namespace ccoll::bench {

/// The jobs that tune this machine: the same command with each of these pairs.
struct TuneJob {
  std::string transport;
  int ranks;
};
/// Each transport with a core per rank (up to 8 ranks), and with four ranks per core if those are
/// at most 64.
std::vector<TuneJob> tune_jobs(int cores);

/// Collective, over links of one kind. Rank 0 writes the file and reports the costs on standard
/// output. Throws ccoll::Error if links are of different kinds or the file cannot be written.
void tune(Communicator& communicator, const Options& options);

}  // namespace ccoll::bench
