// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The contents of a table's cells, with a row for each rank and a column for each block, and the
/// cells between which messages travel. Does not depend on a format.

#include <cstdint>
#include <vector>

#include "rounds/rounds.hpp"

namespace ccoll::show {

/// Rank `row`'s content of block `column`. In an all_to_all only data that has arrived to stay: the
/// block of rank `column` for rank `row`.
struct CellName {
  Rank row = 0;
  std::uint32_t column = 0;
  friend bool operator==(const CellName&, const CellName&) = default;
};

struct Cell {
  std::uint32_t content = kNothing;  ///< number in Rounds::contents
  bool done = false;                 ///< it is the operation's result
  friend bool operator==(const Cell&, const Cell&) = default;
};

/// All cells, row by row.
using Table = std::vector<Cell>;

/// The tables before the first round and after each. Among several contents of a block the one on
/// its way to a result counts, and so does one that was sent on in that round.
std::vector<Table> tables_of(const Rounds& rounds);

/// The cells that a message is sent from, one per piece.
std::vector<CellName> cells_left(const Rounds& rounds, const Message& message);
/// The cells that it goes to, or is combined with; in an all_to_all those of data that stays.
std::vector<CellName> cells_reached(const Rounds& rounds, const Message& message);

}  // namespace ccoll::show
