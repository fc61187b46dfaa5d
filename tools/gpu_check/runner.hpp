// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Runs phases one after another, each a child with its own limit, and says what became of each: a
/// phase that was not run to its end is incomplete or wrong, never passed. Knows no CUDA.

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ccoll::gpu_check {

/// What a child's status means.
inline constexpr int kPassed = 0;
inline constexpr int kWrong = 1;
inline constexpr int kNoDevice = 77;
inline constexpr int kIncomplete = 78;  ///< it lacks something, which its last line tells

/// The variable by which a phase and its other processes know when to leave out what is left, in
/// nanoseconds of the steady clock: a while before the phase's limit.
inline constexpr const char* kUntil = "GPU_CHECK_UNTIL_NS";

struct Phase {
  std::string name;
  std::chrono::seconds limit{60};
  std::vector<std::string> command;
};

enum class Outcome {
  passed,
  wrong,      ///< said so, crashed, or did not end within its limit
  no_device,  ///< none that CUDA can use
  incomplete  ///< not run, cut off where all time was used up, or said so
};

/// As in the table: "passed", "WRONG".
std::string_view word(Outcome outcome);

struct Ending {
  std::string phase;
  Outcome outcome = Outcome::incomplete;
  std::string said;  ///< why, or the last line that the phase printed
  double seconds = 0;
};

struct RunOptions {
  std::string
      out;  ///< a folder: results.jsonl, and log.txt, to which all that phases print is added
  std::chrono::seconds budget{540};
  std::vector<std::string> only = {};  ///< names of phases; empty: all
  /// Looks whether the GPU works: before all others, and after each that has not passed. Once it
  /// does not, a second try included, nothing more is run.
  std::optional<Phase> health = {};
  std::chrono::milliseconds rest{5000};  ///< before that second try
  /// Is told all endings so far after each of them.
  std::function<void(const std::vector<Ending>&)> told = {};
};

/// One after another; what they print is printed as it comes. Each ending is in the results before
/// the next phase begins, and a phase whose results cannot be written is incomplete. SIGINT and
/// SIGTERM end the phase that runs and leave the others out.
std::vector<Ending> run_phases(const std::vector<Phase>& phases, const RunOptions& options);

/// A table, a line for each phase, and a line of sums.
std::string table(const std::vector<Ending>& endings);

/// Of the whole run: kWrong if anything was, or nothing has passed; kNoDevice if there is none.
int status_of(const std::vector<Ending>& endings);

}  // namespace ccoll::gpu_check
