// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Schedules that are wrong on purpose, for learners: one of the library's with one message
/// changed, and the ring that a tutorial teaches. The verifier must find what is wrong.

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
  std::string what;  ///< was done to it: a sentence
};

/// --break drop|duplicate|reorder|wait|tutorial.
void add_break_option(CLI::App& app, std::string& how);

/// The first change of that kind, from rank 1 on, that the verifier does not find right. Fails
/// where the schedule has no such place, or stays right whatever is changed.
Result<Broken> broken(const Call& call, std::string_view how);

/// What is to be seen of it.
Picture picture_of(const Call& call, Broken broken);

/// What the verifier says when what one step sends is dropped, duplicated or reordered.
struct Fault {
  StepName at;
  std::string_view how;     ///< drop, duplicate or reorder
  std::string what;         ///< was done: a sentence
  bool is_right = false;    ///< all the same
  std::string explanation;  ///< for learners, where it is not
};

/// Each of the three ways, where there is such a place, for every step that sends: from rank 0 on,
/// `most_steps` of them.
std::vector<Fault> faults_of(const Call& call, std::size_t most_steps);

/// A ring all_reduce as a tutorial writes it: its blocking calls, and its second pass that counts
/// the blocks upwards, where they come downwards. With all contributions alike it looks right.
std::vector<Program> tutorial_ring(const Problem& problem);

}  // namespace ccoll::show
