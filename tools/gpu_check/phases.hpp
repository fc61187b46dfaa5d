// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The phases, each in a process of its own, and the code that they share.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "core/result.hpp"
#include "gpu_check/records.hpp"
#include "gpu_check/runner.hpp"

namespace ccoll::gpu_check {

struct PhaseContext {
  std::string name;
  const Records& records;
  std::uint64_t seed = 0;
  std::string out = {};  ///< the folder of all results
  bool mps = false;      ///< also under NVIDIA's Multi-Process Service, if that can be started
  std::uint64_t patience = 1;  ///< how many times as long things may take
};

/// The times after which to skip the rest of the phase, and of its current part.
struct Until {
  using Clock = std::chrono::steady_clock;

  Clock::time_point phase = Clock::time_point::max();
  Clock::time_point part = Clock::time_point::max();

  /// The times of this process.
  static Until& here() {
    static Until until;
    static const bool is_read = [] {
      const char* const text = std::getenv(kUntil);
      if (text != nullptr)
        until.phase = Clock::time_point(std::chrono::nanoseconds(std::strtoll(text, nullptr, 10)));
      return true;
    }();
    (void)is_read;
    return until;
  }
  Clock::time_point next() const { return std::min(phase, part); }
  /// Begins one of `parts` remaining parts, which share the time that is left.
  void begin_part(int parts) {
    const auto now = Clock::now();
    if (phase != Clock::time_point::max()) part = now + (phase - now) / parts;
  }
};

/// Whether there is only time for what has already begun.
inline bool is_late() { return Until::Clock::now() > Until::here().next(); }

/// Counts tries and errors; the first errors are printed and recorded.
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
  /// Notes that there is no time for `what`, so that the phase cannot pass.
  void leave_out(const std::string& what) { left_out_ += (left_out_.empty() ? "" : ", ") + what; }
  bool is_hopeless() const { return wrong_ >= 20; }
  /// Prints the phase's line of the table; returns its status.
  int close(const std::string& of_what) const {
    std::printf("%s\n", fmt::format("{} of {} {} wrong, seed {}{}", wrong_, tried_, of_what,
                                    context_.seed, left_out_.empty() ? "" : ", no time for ")
                            .append(left_out_)
                            .c_str());
    if (wrong_ != 0) return kWrong;
    if (!left_out_.empty()) return kIncomplete;
    return tried_ > 0 ? kPassed : kWrong;
  }

 private:
  friend class Check;
  const PhaseContext& context_;
  std::uint64_t tried_ = 0;
  std::uint64_t wrong_ = 0;
  std::string left_out_;
};

/// A part of a phase, printed and recorded when it ends, so that its result survives whatever
/// happens to the rest.
class Check {
 public:
  Check(Findings& findings, std::string name)
      : findings_(findings),
        name_(std::move(name)),
        tried_(findings.tried_),
        wrong_(findings.wrong_),
        left_out_(findings.left_out_.size()),
        exceptions_(std::uncaught_exceptions()) {}
  Check(const Check&) = delete;
  Check& operator=(const Check&) = delete;
  ~Check() {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin_;
    const auto tried = findings_.tried_ - tried_, wrong = findings_.wrong_ - wrong_;
    const char* const status = std::uncaught_exceptions() > exceptions_  ? "ended by an error"
                               : wrong != 0                              ? "WRONG"
                               : findings_.left_out_.size() != left_out_ ? "incomplete"
                               : tried == 0                              ? "nothing tried"
                                                                         : "passed";
    try {
      std::printf("%s\n", fmt::format("{}: {}, {} of {} wrong, {:.2f} s", name_, status, wrong,
                                      tried, took.count())
                              .c_str());
      std::fflush(stdout);
      findings_.context_.records.add({{"phase", findings_.context_.name},
                                      {"what", "check"},
                                      {"name", name_},
                                      {"status", status},
                                      {"tried", tried},
                                      {"wrong", wrong},
                                      {"seconds", took.count()}});
    } catch (const std::exception& error) {  // the next record reports the failure to write, too
      std::printf("%s\n", error.what());
    }
  }

 private:
  Findings& findings_;
  const std::string name_;
  const std::uint64_t tried_, wrong_;
  const std::size_t left_out_;
  const int exceptions_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Identifies the GPU, and copies and fills memory without ccoll. If this fails, nothing else can
/// be tested.
int run_health(const PhaseContext& context);
/// The most informative checks in a few seconds: a kernel, and an all_reduce of two ranks in each
/// way that threads have.
int run_first(const PhaseContext& context);
/// Probes the device: paths between processes, cooperative launches, also in captures. Only
/// essential features count as errors.
int run_probe(const PhaseContext& context);
/// The other process of probe: reads the memory that `handle` names, of kind `kind`.
int read_as_peer(const std::string& kind, const std::string& handle);
/// Types × operations × sources × alignments, bit by bit against the host's kernels.
int run_kernels(const PhaseContext& context);
/// Teams of 1, 2, 3, 4 and 8 ranks, bit by bit against the host's interpreter.
int run_teams(const PhaseContext& context);
/// Graphs of two communicators, and of two teams, replayed among plain calls.
int run_graphs(const PhaseContext& context);
/// A process that captures its first calls.
int run_graph(const std::string& handle);
/// Groups of 2, 3 and 8 processes, bit by bit against the host's interpreter, and their calls'
/// times compared with a hand-over between processes.
int run_processes(const PhaseContext& context);
/// One of its processes.
int run_process(const std::string& handle);
/// Groups of 2 and 3 processes beside other work on the GPU.
void run_disturbed_processes(const PhaseContext& context, Findings& findings);
/// Communicators of threads on the GPU: calls in streams, bit by bit against the host, and their
/// times compared with their copies.
int run_communicators(const PhaseContext& context);
/// The same with processes, in each way that their calls can take.
int run_ways(const PhaseContext& context);
/// One of its processes.
int run_communicator(const std::string& handle);
/// Teams, communicators and processes beside anything else a process may do with its GPU.
int run_adversary(const PhaseContext& context);
/// compute-sanitizer's memcheck and synccheck on deliberate errors, and on small teams.
int run_sanitizers(const PhaseContext& context);
/// A process that runs under one.
int run_sanitized(const std::string& handle);
/// The speed of copying, reducing and a team's all_reduce, compared with the device's limits.
int run_figures(const PhaseContext& context);
/// Ranks that are killed, stopped, absent, or abort, and a kernel that is asked to end.
int run_faults(const PhaseContext& context);
/// A process in which one rank does so.
int run_fault(const std::string& handle);
/// The NCCL face's conformance program with 1 to 8 ranks, and with NVIDIA's library on one.
int run_nccl(const PhaseContext& context);
/// Unmodified PyTorch and CuPy over the NCCL face.
int run_torch(const PhaseContext& context);
int run_cupy(const PhaseContext& context);
/// The Python package's native interface over arrays of torch, CuPy and JAX.
int run_arrays(const PhaseContext& context);
/// torch.distributed over the package's backend, with CUDA tensors.
int run_backend(const PhaseContext& context);

}  // namespace ccoll::gpu_check
