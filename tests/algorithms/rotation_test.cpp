// SPDX-License-Identifier: Apache-2.0

/// Which algorithms do the same on all ranks: the catalogue's answer must be exactly right.

#include <catch2/catch.hpp>

#include "algorithms/sweep.hpp"

namespace ccoll {
namespace {

std::uint32_t blocks_of(const std::vector<Operand>& operands) {
  std::uint32_t blocks = 0;
  for (const Operand& operand : operands) blocks += operand.blocks;
  return blocks;
}

/// Describes peers as distances, and operands only by their number of blocks.
std::string seen_from(const Program& program) {
  const auto distance = [&](Rank peer) {
    return (std::uint64_t{peer} + program.size - program.rank) % program.size;
  };
  std::string text;
  for (const Lane& lane : program.lanes) {
    text += fmt::format("stripe {}\n", lane.stripe);
    for (const Step& step : lane.steps) {
      std::set<std::pair<std::uint64_t, std::uint16_t>> receives;
      for (const Receive& receive : step.receives)
        receives.emplace(distance(receive.peer), receive.lane);
      for (const auto& [from, from_lane] : receives)
        text += fmt::format(" <{}/{}", from, from_lane);
      text += fmt::format(" {}={}", blocks_of(step.local), blocks_of(step.store));
      for (const Rank peer : step.sends) text += fmt::format(" >{}", distance(peer));
      if (step.after) text += fmt::format(" after {}/{}", step.after->lane, step.after->step);
      text += fmt::format(" {} {}\n", step.finish, static_cast<int>(step.lend));
    }
  }
  return text;
}

/// Whether rank r + d does what rank r does, for d a multiple of `beside`.
bool rotates(const Problem& problem, Algorithm algorithm, Rank beside) {
  std::vector<std::string> first;
  for (Rank rank = 0; rank < problem.size; ++rank) {
    std::string text = seen_from(make_program(problem, {algorithm, 1, 1}, rank));
    if (rank < beside)
      first.push_back(std::move(text));
    else if (text != first[rank % beside])
      return false;
  }
  return true;
}

TEST_CASE("an algorithm does the same on all ranks exactly where the catalogue says so",
          "[algorithms][property]") {
  for (const CatalogueEntry& entry : catalogue()) {
    bool always = true;
    for (Rank size = 2; size <= 40; ++size) {
      Problem problem;
      problem.kind = entry.kind;
      problem.size = size;
      problem.count = entry.kind == Kind::barrier ? 1 : 7;
      if (!entry.by_host) {
        always = always && rotates(problem, entry.algorithm, 1);
        continue;
      }
      for (const Rank beside : {2U, 3U, 4U}) {
        if (size % beside != 0 || size == beside) continue;
        problem.host_of.clear();
        for (Rank rank = 0; rank < size; ++rank) problem.host_of.push_back(rank / beside);
        always = always && rotates(problem, entry.algorithm, beside);
      }
    }
    INFO(test::name_of(entry));
    CHECK(always == entry.rotates);
  }
}

}  // namespace
}  // namespace ccoll
