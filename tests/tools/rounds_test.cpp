// SPDX-License-Identifier: Apache-2.0
#include "rounds/rounds.hpp"

#include <catch2/catch.hpp>
#include <set>

#include "algorithms/sweep.hpp"

namespace ccoll {
namespace {

using test::roots_of;

Rounds rounds_of_entry(const CatalogueEntry& entry, Rank size, Rank root, std::uint64_t count) {
  Problem problem;
  problem.kind = entry.kind;
  problem.size = size;
  problem.root = root;
  problem.count = entry.kind == Kind::barrier ? 1 : count;
  return rounds_of(problem, [&](Rank rank) {
    return make_program(problem, one_window(problem, entry.algorithm), rank);
  });
}

/// The final content of an output by its kind's definition: the shares and the block.
std::pair<std::vector<Share>, std::uint32_t> expected(const Problem& problem, Rank rank,
                                                      std::uint32_t block) {
  const auto copy_of = [](Rank from) { return std::vector<Share>{{from, 1}}; };
  switch (problem.kind) {
    case Kind::broadcast:
    case Kind::scatter:
      return {copy_of(problem.root), block};
    case Kind::all_gather:
    case Kind::gather:
      return {copy_of(block), block};
    case Kind::all_to_all:
      return {copy_of(block), rank};
    default:
      break;
  }
  std::vector<Share> all;
  for (Rank each = 0; each < problem.size; ++each) all.push_back({each, 1});
  return {all, block};
}

void check_results(const Rounds& rounds, const Board& board) {
  const Problem& problem = rounds.problem;
  for (Rank rank = 0; rank < problem.size; ++rank) {
    for (std::uint32_t block = 0; block < rounds.blocks; ++block) {
      if (!has_result(problem, rank, block)) continue;
      if (block_elems(problem, rounds.blocks, block) == 0) continue;
      CAPTURE(rank, block);
      const std::uint32_t held = board.content_at(rank, Place::output, block);
      REQUIRE(held < rounds.contents.size());
      CHECK(is_result(rounds, rank, block, held));
      if (problem.kind == Kind::barrier) continue;  // a barrier may combine twice
      const Content& content = rounds.contents[held];
      CHECK(std::pair{content.shares, content.block} == expected(problem, rank, block));
    }
  }
}

/// A sender holds everything that it sends, nothing stays in transit for ever, and no message is
/// lost.
void check_round(const Rounds& rounds, const Board& before, const Round& round) {
  for (const Message& message : round.messages) {
    CHECK(message.received);
    CHECK(message.by.rank == message.to);
    for (const MessageBlock& piece : message.pieces) {
      REQUIRE(piece.content < rounds.contents.size());
      bool holds = false;
      for (const Holding& holding : before.held_by(message.from.rank)) {
        holds |= holding.content == piece.content && holding.block == piece.block;
      }
      // Data that a step stores and sends without waiting appears with the message.
      for (const Change& change : round.changes) {
        holds |= change.rank == message.from.rank && change.holding.content == piece.content;
      }
      CHECK(holds);
    }
  }
}

TEST_CASE("rounds: in the end every rank holds the result, and all that was sent is the theory's",
          "[schedule][property]") {
  for (const CatalogueEntry& entry : catalogue()) {
    for (Rank size = 1; size <= 9; ++size) {
      for (const Rank root : roots_of(entry.kind, size)) {
        CAPTURE(test::name_of(entry), size, root);
        const Rounds rounds = rounds_of_entry(entry, size, root, 2 * size + 1);
        REQUIRE(rounds.findings.empty());
        Board board(rounds);
        std::set<std::uint64_t> depths;
        for (const Round& round : rounds.rounds) {
          check_round(rounds, board, round);
          if (!round.messages.empty()) depths.insert(round.depth);
          REQUIRE(board.advance());
        }
        CHECK_FALSE(board.advance());
        check_results(rounds, board);
        const Theory theory = entry.theory(rounds.problem);
        CHECK(depths.size() == theory.depth);
        Load busiest;
        Load total;
        for (Rank rank = 0; rank < size; ++rank) {
          const Tally& tally = board.tally(rank);
          busiest.messages = std::max(busiest.messages, tally.messages);
          busiest.elems_sent = std::max(busiest.elems_sent, tally.elems_sent);
          busiest.elems_reduced = std::max(busiest.elems_reduced, tally.elems_reduced);
          total.messages += tally.messages;
          total.elems_sent += tally.elems_sent;
          total.elems_reduced += tally.elems_reduced;
          for (const Holding& holding : board.held_by(rank)) {
            CHECK(holding.place != Place::passing);
          }
        }
        // A picture does not show which messages belong to one step.
        total.elems_repeated = theory.total.elems_repeated;
        busiest.elems_repeated = theory.busiest.elems_repeated;
        CHECK(total == theory.total);
        CHECK(busiest == theory.busiest);
      }
    }
  }
}

TEST_CASE("rounds: a ring's are as many as its messages, each rank sending one in each",
          "[schedule][unit]") {
  const Rounds rounds =
      rounds_of_entry(*find_algorithm(Kind::all_reduce, Algorithm::ring), 4, 0, 8);
  REQUIRE(rounds.rounds.size() == 6);
  for (const Round& round : rounds.rounds) {
    REQUIRE(round.messages.size() == 4);
    for (const Message& message : round.messages) {
      CHECK(message.to == (message.from.rank + 1) % 4);
      CHECK(message.elems() == 2);
    }
  }
  Board board(rounds);
  board.advance();
  board.advance();
  // Block 1 has been to ranks 2, 3 and 0, where it waits to be forwarded.
  const std::uint32_t passing = board.content_at(0, Place::passing, 1);
  REQUIRE(passing < rounds.contents.size());
  CHECK(rounds.contents[passing].shares == std::vector<Share>{{0, 1}, {2, 1}, {3, 1}});
  CHECK(board.content_at(0, Place::output, 1) == kNothing);
}

TEST_CASE("rounds: messages that a lane sends one after another are in rounds of their own",
          "[schedule][unit]") {
  const Rounds rounds =
      rounds_of_entry(*find_algorithm(Kind::all_to_all, Algorithm::pairwise), 5, 0, 1);
  REQUIRE(rounds.rounds.size() == 4);
  for (std::size_t round = 0; round < 4; ++round) {
    CHECK(rounds.rounds[round].depth == 1);
    for (const Message& message : rounds.rounds[round].messages) {
      CHECK(message.to == (message.from.rank + round + 1) % 5);
    }
  }
}

TEST_CASE("rounds: a broken schedule is shown as far as it makes sense, with what is wrong",
          "[schedule][unit]") {
  const CatalogueEntry& ring = *find_algorithm(Kind::all_reduce, Algorithm::ring);
  Problem problem;
  problem.size = 3;
  problem.count = 3;
  const auto broken = [&](Rank rank) {
    Program program = ring.make(problem, rank);
    if (rank == 1) program.lanes[0].steps[0].sends.clear();
    return program;
  };
  const Rounds rounds = rounds_of(problem, broken);
  REQUIRE_FALSE(rounds.findings.empty());
  CHECK(rounds.findings[0].kind == FindingKind::deadlock);
  CHECK_FALSE(rounds.rounds.empty());
  // Rank 2 lacks rank 1's last message, for which rank 1 has no step left.
  REQUIRE(rounds.waits.size() == 2);
  CHECK_FALSE(rounds.is_cycle);
  CHECK(rounds.waits[0].step == StepName{2, 0, 4});
  CHECK(rounds.waits[0].what == Wait::For::message);
  CHECK(rounds.waits[0].peer == 1);
  CHECK(rounds.waits[1].step.rank == 1);
  CHECK(rounds.waits[1].what == Wait::For::nothing);

  const auto receives_first = [&](Rank rank) {
    Program program = ring.make(problem, rank);
    std::swap(program.lanes[0].steps[0], program.lanes[0].steps[1]);
    return program;
  };
  const Rounds cycle = rounds_of(problem, receives_first);
  CHECK(cycle.is_cycle);
  REQUIRE(cycle.waits.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(cycle.waits[i].peer == cycle.waits[(i + 1) % 3].step.rank);
  }
  CHECK(cycle.rounds.empty());

  const auto malformed = [&](Rank rank) {
    Program program = ring.make(problem, rank);
    program.lanes[0].steps[0].sends = {7};
    return program;
  };
  const Rounds none = rounds_of(problem, malformed);
  REQUIRE_FALSE(none.findings.empty());
  CHECK(none.findings[0].kind == FindingKind::malformed);
  CHECK(none.rounds.empty());
}

}  // namespace
}  // namespace ccoll
