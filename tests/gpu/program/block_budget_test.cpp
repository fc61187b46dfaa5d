// SPDX-License-Identifier: Apache-2.0
// The budget of blocks over all teams of several GPUs: all admitted blocks fit, wherever the GPU
// puts them.
#include "gpu/program/block_budget.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <random>
#include <vector>

#include "support/effort.hpp"

using ccoll::device::BlockBudget;

namespace {

/// Parts of a multiprocessor; any number up to 8 divides it.
constexpr unsigned kParts = 840;

struct Program {
  unsigned blocks;
  unsigned each;  ///< how many of them fit on a multiprocessor
};

/// A GPU that puts blocks wherever they fit, and lets each stay for any time.
class Gpu {
 public:
  explicit Gpu(unsigned multiprocessors) : free_(multiprocessors, kParts) {}

  /// The places of its blocks; fewer than it has if there is no room for all.
  std::vector<std::size_t> begin(const Program& program, std::mt19937& random) {
    const unsigned parts = kParts / program.each;
    std::vector<std::size_t> places;
    while (places.size() < program.blocks) {
      std::vector<std::size_t> open;
      for (std::size_t i = 0; i < free_.size(); i++)
        if (free_[i] >= parts) open.push_back(i);
      if (open.empty()) break;
      // Half of the time it fills the first place, which is as uneven as possible.
      places.push_back(open[random() % 2 == 0 ? 0 : random() % open.size()]);
      free_[places.back()] -= parts;
    }
    return places;
  }
  void end(const Program& program, const std::vector<std::size_t>& places) {
    for (const std::size_t place : places) free_[place] += kParts / program.each;
  }

 private:
  std::vector<unsigned> free_;
};

/// A team with up to two calls running at a time; or a group, which has reserved blocks for its
/// programs.
struct Team {
  struct Running {
    Program program;
    std::vector<std::size_t> places;
  };
  std::vector<Program> loaded;
  std::vector<Running> running;
  bool is_group = false;
  std::optional<Program> reserved = std::nullopt;
};

/// Reserves a random amount and may keep less.
Program reserve_some(BlockBudget& budget, const Team& team, unsigned multiprocessors,
                     std::mt19937& random) {
  const unsigned each = 1 + random() % 8;
  const unsigned most = 1 + random() % (multiprocessors * each);
  const unsigned room = budget.room(&team, 0, multiprocessors * each);
  Program reserved{budget.reserve(&team, {0, most, multiprocessors * each}), each};
  CHECK(reserved.blocks == std::min(most, room));
  if (reserved.blocks == 0 || random() % 2 == 0) return reserved;
  reserved.blocks = 1 + random() % reserved.blocks;
  budget.limit(&team, reserved.blocks);
  return reserved;
}

/// Whether a random program of the team is admitted.
bool load_some(BlockBudget& budget, Team& team, unsigned multiprocessors, std::mt19937& random) {
  Program program{0, 1 + static_cast<unsigned>(random() % 8)};
  program.blocks = 1 + random() % (multiprocessors * program.each);
  if (team.is_group) {
    if (!team.reserved) team.reserved = reserve_some(budget, team, multiprocessors, random);
    if (program.blocks > team.reserved->blocks || program.each < team.reserved->each) return false;
  } else {
    const BlockBudget::Need need{0, program.blocks, multiprocessors * program.each};
    const bool fits = program.blocks <= budget.room(&team, 0, need.at_once);
    CHECK(budget.take(&team, {&need, 1}) == fits);
    if (!fits) return false;
  }
  team.loaded.push_back(program);
  return true;
}

}  // namespace

TEST_CASE("block budget: what is let in begins at once, whatever runs beside it",
          "[engine][device][property]") {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  const int rounds = ccoll::testing::by_effort(200, 1'000, 50'000);
  int refused = 0, begun = 0;
  for (int round = 0; round < rounds; round++) {
    CAPTURE(seed, round);
    BlockBudget budget;
    const unsigned multiprocessors = 1 + random() % 6;
    std::vector<Team> teams(1 + random() % 5);
    for (Team& team : teams) team.is_group = random() % 2 == 0;
    for (int load = 0; load < 12; load++) {
      Team& team = teams[random() % teams.size()];
      if (!load_some(budget, team, multiprocessors, random)) refused++;
    }
    Gpu gpu(multiprocessors);
    for (int step = 0; step < 40; step++) {
      Team& team = teams[random() % teams.size()];
      if (team.running.size() == 2 || (!team.running.empty() && random() % 2 == 0)) {
        const auto ended = team.running.begin() + random() % team.running.size();
        gpu.end(ended->program, ended->places);
        team.running.erase(ended);
      } else if (!team.loaded.empty()) {
        const Program& program = team.loaded[random() % team.loaded.size()];
        team.running.push_back({program, gpu.begin(program, random)});
        REQUIRE(team.running.back().places.size() == program.blocks);
        begun++;
      }
      // A step's block is no larger than any of these.
      const Program of_step{1, 8};
      const auto places = gpu.begin(of_step, random);
      REQUIRE(places.size() == 1);
      gpu.end(of_step, places);
    }
  }
  CHECK(refused > rounds);
  CHECK(begun > rounds);
}

TEST_CASE("block budget: a team counts as its largest program does, twice, on its own GPUs",
          "[engine][device]") {
  BlockBudget budget;
  const int first = 0, second = 0;
  CHECK(budget.room(&first, 3, 100) == 25);
  const BlockBudget::Need needs[] = {{3, 10, 100}, {4, 20, 100}};
  REQUIRE(budget.take(&first, needs));
  // Its own blocks never count against it.
  const BlockBudget::Need smaller{3, 5, 100};
  REQUIRE(budget.take(&first, {&smaller, 1}));
  CHECK(budget.room(&first, 3, 100) == 25);
  CHECK(budget.room(&second, 3, 100) == 20);
  CHECK(budget.room(&second, 4, 100) == 15);
  CHECK(budget.room(&second, 5, 100) == 25);
  // All blocks count like those of the program of whose blocks the fewest fit.
  CHECK(budget.room(&second, 3, 30) == 2);
  CHECK(budget.room(&second, 3, 1'000) == 20);
  CHECK(budget.room(&second, 3, 19) == 0);

  const BlockBudget::Need too_many[] = {{3, 20, 100}, {4, 16, 100}};
  CHECK_FALSE(budget.take(&second, too_many));
  CHECK(budget.room(&first, 3, 100) == 25);

  budget.give_back(&first);
  CHECK(budget.take(&second, too_many));
  CHECK(budget.room(&first, 3, 100) == 15);
}

TEST_CASE("block budget: the next team always has some, as long as there is any",
          "[engine][device]") {
  BlockBudget budget;
  const int teams[20] = {};
  unsigned left = 49;
  for (const int& team : teams) {
    const unsigned blocks = budget.room(&team, 0, 100);
    CHECK((blocks > 0) == (left > 0));
    if (blocks == 0) break;
    const BlockBudget::Need need{0, blocks, 100};
    REQUIRE(budget.take(&team, {&need, 1}));
    left -= blocks;
  }
  CHECK(left == 0);
}

TEST_CASE("block budget: there is no room where a device runs no block", "[engine][device]") {
  BlockBudget budget;
  const int team = 0;
  CHECK(budget.room(&team, 0, 0) == 0);
  const BlockBudget::Need need{0, 1, 0};
  CHECK_FALSE(budget.take(&team, {&need, 1}));
}
