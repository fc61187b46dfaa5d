// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Runs phases one after another, each as a child with its own limit, and reports each outcome. A
/// phase that does not complete is incomplete or wrong, never passed. Does not depend on CUDA.

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ccoll::gpu_check {

/// The meanings of a child's status.
inline constexpr int kPassed = 0;
inline constexpr int kWrong = 1;
inline constexpr int kNoDevice = 77;
inline constexpr int kIncomplete = 78;  ///< something is missing, which its last line names

/// The variable that says when a phase and its processes skip the rest, in nanoseconds of the
/// steady clock: a while before the phase's limit.
inline constexpr const char* kUntil = "GPU_CHECK_UNTIL_NS";

struct Phase {
  std::string name;
  std::chrono::seconds limit{60};
  std::vector<std::string> command;
};

enum class Outcome {
  passed,
  wrong,      ///< reported errors, crashed, or exceeded its limit
  no_device,  ///< none that CUDA can use
  incomplete  ///< not run, cut off when all time was used up, or reported so
};

/// As in the table: "passed", "WRONG".
std::string_view word(Outcome outcome);

struct Ending {
  std::string phase;
  Outcome outcome = Outcome::incomplete;
  std::string said;  ///< the reason, or the last line that the phase printed
  double seconds = 0;
};

struct RunOptions {
  std::string out;  ///< a folder: results.jsonl, and log.txt with the output of all phases
  std::chrono::seconds budget{540};
  std::vector<std::string> only = {};  ///< names of phases; empty: all
  /// Checks whether the GPU works: before all others, and after each that has not passed. If it
  /// fails twice, nothing more is run.
  std::optional<Phase> health = {};
  std::chrono::milliseconds rest{5000};  ///< before the second try
  /// Called with all endings so far after each of them.
  std::function<void(const std::vector<Ending>&)> told = {};
};

/// Runs them one after another; their output is printed as it comes. Each ending is in the results
/// before the next phase begins, and a phase whose results cannot be written is incomplete. SIGINT
/// and SIGTERM end the running phase and skip the others.
std::vector<Ending> run_phases(const std::vector<Phase>& phases, const RunOptions& options);

/// A table with a line for each phase, and a line of sums.
std::string table(const std::vector<Ending>& endings);

/// The whole run's status: kWrong if any is wrong or none has passed; kNoDevice if there is none.
int status_of(const std::vector<Ending>& endings);

}  // namespace ccoll::gpu_check
