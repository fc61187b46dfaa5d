// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the phases do, each in a process of its own, and what they have in common.

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "core/result.hpp"
#include "records.hpp"
#include "runner.hpp"

namespace ccoll::gpu_check {

struct PhaseContext {
  std::string name;
  const Records& records;
  std::uint64_t seed = 0;
  std::string out = {};  ///< the folder of all results
  bool mps = false;      ///< also by NVIDIA's Multi-Process Service, where that can be started
};

/// Counts what was tried and what was wrong; the first that were wrong are said and recorded.
class Findings {
 public:
  explicit Findings(const PhaseContext& context) : context_(context) {}
  void tried() { ++tried_; }
  void wrong(const std::string& what) {
    ++wrong_;
    if (wrong_ > 20) return;
    std::printf("WRONG: %s\n", what.c_str());
    std::fflush(stdout);
    context_.records.add({{"phase", context_.name}, {"what", "wrong"}, {"said", what}});
  }
  bool is_hopeless() const { return wrong_ >= 20; }
  /// What stands in the table; the phase's status.
  int close(const std::string& of_what) const {
    std::printf(
        "%s\n",
        fmt::format("{} of {} {} wrong, seed {}", wrong_, tried_, of_what, context_.seed).c_str());
    return wrong_ == 0 && tried_ > 0 ? kPassed : kWrong;
  }

 private:
  const PhaseContext& context_;
  std::uint64_t tried_ = 0;
  std::uint64_t wrong_ = 0;
};

/// Which device there is and what works on it: paths between processes, cooperative launches, also
/// when captured. Only what everything else needs can be wrong.
int run_probe(const PhaseContext& context);
/// The other process of probe: reads what `handle` names, of the kind that `kind` names.
int read_as_peer(const std::string& kind, const std::string& handle);
/// Types × operations × sources × alignments, bit by bit what the host's kernels do.
int run_kernels(const PhaseContext& context);
/// Teams of 1, 2, 3, 4 and 8 ranks, bit by bit what the host's interpreter does.
int run_teams(const PhaseContext& context);
/// Graphs of two communicators, and of two teams, replayed among plain calls.
int run_graphs(const PhaseContext& context);
/// A process that captures its first calls.
int run_graph(const std::string& handle);
/// Groups of 2, 3 and 8 processes, bit by bit what the host's interpreter does, and how long their
/// calls take beside the time from one process to another.
int run_processes(const PhaseContext& context);
/// One of them.
int run_process(const std::string& handle);
/// Groups of 2 and 3 of them, with other work on the GPU meanwhile.
void run_disturbed_processes(const PhaseContext& context, Findings& findings);
/// Communicators of threads and of processes whose ranks have the GPU: calls in streams, bit by bit
/// what they are on the host, and how long they take beside their copies.
int run_communicators(const PhaseContext& context);
/// One of its processes.
int run_communicator(const std::string& handle);
/// Teams, communicators and processes beside whatever else a process may do with its GPU.
int run_adversary(const PhaseContext& context);
/// compute-sanitizer's memcheck and synccheck on what they have to find, and on small teams.
int run_sanitizers(const PhaseContext& context);
/// A process that runs under one.
int run_sanitized(const std::string& handle);
/// How fast copying, reducing and a team's all_reduce are, beside what the device can.
int run_figures(const PhaseContext& context);
/// Ranks that are killed, stopped, absent, or abort, and a kernel that is told to end.
int run_faults(const PhaseContext& context);
/// A process of which one rank does so.
int run_fault(const std::string& handle);

}  // namespace ccoll::gpu_check
