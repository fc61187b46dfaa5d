// SPDX-License-Identifier: Apache-2.0
#include "show/model/cells.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "show/model/picture.hpp"

namespace ccoll::show::test {
namespace {

Picture picture(const CatalogueEntry& entry, Rank size) {
  CallWords words;
  words.operation = to_string(entry.kind);
  words.algorithm = to_string(entry.algorithm);
  words.ranks = size;
  const auto call = call_of(words);
  REQUIRE(call);
  return picture_of(*call);
}

const Cell& at(const Rounds& rounds, const Table& table, const CellName& cell) {
  return table.at(std::size_t{cell.row} * rounds.blocks + cell.column);
}

/// Whether all of `part` is in the parts from which `whole` was combined.
bool holds(const Rounds& rounds, std::uint32_t whole, std::uint32_t part) {
  if (whole >= rounds.contents.size()) return false;
  return std::ranges::all_of(rounds.contents[part].shares, [&](const Share& share) {
    return std::ranges::find(rounds.contents[whole].shares, share.rank, &Share::rank) !=
           rounds.contents[whole].shares.end();
  });
}

/// `number`: the round's, from 1.
void check_messages(const Picture& picture, const std::vector<Table>& tables, std::size_t number) {
  const Rounds& rounds = picture.rounds;
  for (const Message& message : rounds.rounds[number - 1].messages) {
    const std::vector<CellName> left = cells_left(rounds, message);
    const std::vector<CellName> reached = cells_reached(rounds, message);
    REQUIRE(left.size() == message.pieces.size());
    if (rounds.problem.kind == Kind::all_to_all) {
      for (const CellName& cell : reached) CHECK(at(rounds, tables[number], cell).done);
      continue;
    }
    REQUIRE(reached.size() == message.pieces.size());
    for (std::size_t i = 0; i < left.size(); ++i) {
      const std::uint32_t content = message.pieces[i].content;
      // Data that is stored and sent without waiting appears with the message.
      CHECK((holds(rounds, at(rounds, tables[number - 1], left[i]).content, content) ||
             holds(rounds, at(rounds, tables[number], left[i]).content, content)));
      CHECK(reached[i].row == message.to);
      // A step that waits for several messages does nothing before the last has arrived.
      CHECK(std::any_of(tables.begin() + std::ptrdiff_t(number), tables.end(),
                        [&](const Table& table) {
                          return holds(rounds, at(rounds, table, reached[i]).content, content);
                        }));
    }
  }
}

TEST_CASE("cells: messages leave from where their data is shown and arrive where it will be",
          "[show][property]") {
  for (const CatalogueEntry& entry : catalogue()) {
    for (const Rank size : {2, 3, 6}) {
      const Picture shown = picture(entry, size);
      CAPTURE(to_string(entry.kind), to_string(entry.algorithm), size);
      const std::vector<Table> tables = tables_of(shown.rounds);
      REQUIRE(tables.size() == shown.rounds.rounds.size() + 1);
      for (std::size_t i = 1; i < tables.size(); ++i) check_messages(shown, tables, i);
    }
  }
}

TEST_CASE("cells: in the end those are done that the operation promises, and no others",
          "[show][property]") {
  for (const CatalogueEntry& entry : catalogue()) {
    const Picture shown = picture(entry, 5);
    const Rounds& rounds = shown.rounds;
    CAPTURE(to_string(entry.kind), to_string(entry.algorithm));
    const std::vector<Table> tables = tables_of(rounds);
    for (Rank row = 0; row < 5; ++row) {
      for (std::uint32_t column = 0; column < rounds.blocks; ++column) {
        const bool promised = has_result(rounds.problem, row, column) &&
                              block_elems(rounds.problem, rounds.blocks, column) > 0;
        CHECK(at(rounds, tables.back(), {row, column}).done == promised);
      }
    }
  }
}

TEST_CASE("cells: a sum that was passed on is shown in that round, and is gone in the next",
          "[show][unit]") {
  const Picture shown = picture(*find_algorithm(Kind::all_reduce, Algorithm::ring), 4);
  const std::vector<Table> tables = tables_of(shown.rounds);
  const auto ranks = [&](std::size_t round) {
    return shown.rounds.contents[at(shown.rounds, tables[round], {1, 3}).content].shares.size();
  };
  CHECK(ranks(1) == 2);  // 0+1 has arrived
  CHECK(ranks(2) == 2);  // and leaves
  CHECK(ranks(3) == 1);
}

}  // namespace
}  // namespace ccoll::show::test
