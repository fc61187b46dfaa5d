// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Runs phases one after another, each a child with its own limit, and says what became of each: a
/// phase that was not run to its end is incomplete or wrong, never passed. Knows no CUDA.

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace ccoll::gpu_check {

/// What a child's status means.
inline constexpr int kPassed = 0;
inline constexpr int kWrong = 1;
inline constexpr int kNoDevice = 77;
inline constexpr int kIncomplete = 78;  ///< it lacks something, which its last line tells

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
  std::string out;  ///< a folder: results.jsonl, and NAME.log of what each phase prints
  std::chrono::seconds budget{540};
  std::vector<std::string> only;  ///< names of phases; empty: all
};

/// One after another; each ending is in the results before the next begins, and a phase whose
/// results cannot be written is incomplete. SIGINT and SIGTERM end the phase that runs and leave
/// the others out.
std::vector<Ending> run_phases(const std::vector<Phase>& phases, const RunOptions& options);

/// A table, a line for each phase, and a line of sums.
std::string table(const std::vector<Ending>& endings);

/// Of the whole run: kWrong if anything was, or nothing has passed; kNoDevice if there is none.
int status_of(const std::vector<Ending>& endings);

}  // namespace ccoll::gpu_check
