// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Deliberately wrong schedules for learners: the library's with one message changed, and a
/// tutorial's ring. The verifier must find the errors.

#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "show/model/call.hpp"
#include "show/model/picture.hpp"

namespace CLI {
class App;
}

namespace ccoll::show {

struct Broken {
  std::vector<Program> programs;
  std::string what;  ///< what was done to it: a sentence
};

/// --break drop|duplicate|reorder|wait|tutorial.
void add_break_option(CLI::App& app, std::string& how);

/// The first change of that kind, from rank 1 on, to which the verifier objects. Fails if the
/// schedule has no such place, or stays right with every change.
Result<Broken> broken(const Call& call, std::string_view how);

/// The picture of the broken schedule.
Picture picture_of(const Call& call, Broken broken);

/// The verifier's verdict if one step's message is dropped, duplicated or reordered.
struct Fault {
  StepName at;
  std::string_view how;     ///< drop, duplicate or reorder
  std::string what;         ///< what was done: a sentence
  bool is_right = false;    ///< right all the same
  std::string explanation;  ///< for learners, if it is wrong
};

/// Each of the three changes, where possible, for every step that sends: from rank 0 on, up to
/// `most_steps` of them.
std::vector<Fault> faults_of(const Call& call, std::size_t most_steps);

/// A ring all_reduce as a tutorial writes it: with blocking calls, and a second pass that counts
/// blocks upwards although they arrive downwards. With equal contributions it looks right.
std::vector<Program> tutorial_ring(const Problem& problem);

}  // namespace ccoll::show
