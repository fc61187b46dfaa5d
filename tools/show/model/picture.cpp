// SPDX-License-Identifier: Apache-2.0
#include "show/model/picture.hpp"

#include <utility>

namespace ccoll::show {

namespace {

/// The most elements of a block that are computed.
constexpr std::size_t kMostNumbers = 16;

/// Proves two consecutive calls; errors of the first alone are reported as such.
Report proof_of(const Problem& problem, const Schedule& schedule) {
  const Choice choice = one_window(problem, Algorithm::ring);
  Report both = verify(problem, choice, schedule);
  if (both.ok()) return both;
  Report first = verify(problem, choice, schedule, VerifyOptions{.calls = 1});
  return first.ok() ? both : first;
}

}  // namespace

Picture picture_of(const Call& call, std::vector<Program> programs) {
  Picture picture;
  picture.call = call;
  picture.programs = std::move(programs);
  const Schedule schedule = [&](Rank rank) { return picture.programs[rank]; };
  picture.rounds = rounds_of(call.problem, schedule);
  picture.report = proof_of(call.problem, schedule);
  picture.numbers = numbers_of(picture.rounds, call.op, call.type, kMostNumbers);
  return picture;
}

Picture picture_of(const Call& call) {
  const Choice choice = one_window(call.problem, call.entry->algorithm);
  std::vector<Program> programs;
  for (Rank rank = 0; rank < call.problem.size; ++rank) {
    programs.push_back(make_program(view_of(call.problem, rank), choice, rank));
  }
  Picture picture = picture_of(call, std::move(programs));
  picture.theory = call.entry->theory(call.problem);
  return picture;
}

}  // namespace ccoll::show
