// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What of all that ranks hold stands in the cells of a table, a row for each rank and a column for
/// each block, and between which cells messages travel. Knows no format.

#include <cstdint>
#include <vector>

#include "rounds/rounds.hpp"

namespace ccoll::show {

/// What rank `row` holds of block `column`. Of an all_to_all only what has come for it to stay: the
/// block of rank `column` for rank `row`.
struct CellName {
  Rank row = 0;
  std::uint32_t column = 0;
  friend bool operator==(const CellName&, const CellName&) = default;
};

struct Cell {
  std::uint32_t content = kNothing;  ///< number in Rounds::contents
  bool done = false;                 ///< that is what the operation promises
  friend bool operator==(const Cell&, const Cell&) = default;
};

/// All cells, row by row.
using Table = std::vector<Cell>;

/// The tables before the first round and after each. Where a rank has several contents of a block
/// it is the one that is on its way to a result; one that was sent on in that round still counts.
std::vector<Table> tables_of(const Rounds& rounds);

/// The cells that a message is sent from, a piece each.
std::vector<CellName> cells_left(const Rounds& rounds, const Message& message);
/// The cells that it goes to, or is combined with; of an all_to_all those of what is to stay.
std::vector<CellName> cells_reached(const Rounds& rounds, const Message& message);

}  // namespace ccoll::show
