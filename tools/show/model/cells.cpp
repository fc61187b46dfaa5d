// SPDX-License-Identifier: Apache-2.0
#include "show/model/cells.hpp"

namespace ccoll::show {

namespace {

bool is_matrix(const Rounds& rounds) { return rounds.problem.kind == Kind::all_to_all; }

std::size_t ranks_in(const Rounds& rounds, std::uint32_t content) {
  return content < rounds.contents.size() ? rounds.contents[content].shares.size() : 0;
}

/// A rank's content of a block; among several, the one on its way to a result.
std::uint32_t held(const Board& board, CellName cell) {
  for (const Place place : {Place::passing, Place::output, Place::scratch, Place::input}) {
    const std::uint32_t content = board.content_at(cell.row, place, cell.column);
    if (content != kNothing) return content;
  }
  return kNothing;
}

Table table_of(const Rounds& rounds, const Board& board) {
  Table table;
  for (Rank rank = 0; rank < rounds.problem.size; ++rank) {
    for (std::uint32_t block = 0; block < rounds.blocks; ++block) {
      const std::uint32_t output = board.content_at(rank, Place::output, block);
      const bool done = is_result(rounds, rank, block, output);
      table.push_back({done ? output : held(board, {rank, block}), done});
    }
  }
  return table;
}

Table matrix_of(const Rounds& rounds, const Board& board) {
  Table table;
  for (Rank to = 0; to < rounds.problem.size; ++to) {
    for (Rank from = 0; from < rounds.problem.size; ++from) {
      const std::uint32_t output = board.content_at(to, Place::output, from);
      const bool done = is_result(rounds, to, from, output);
      table.push_back({done ? output : kNothing, done});
    }
  }
  return table;
}

/// Data combined only for sending is not stored, but the round is about it.
void keep_sent(const Rounds& rounds, const Round& round, Table& table) {
  for (const Message& message : round.messages) {
    for (const MessageBlock& piece : message.pieces) {
      Cell& cell = table[std::size_t{message.from.rank} * rounds.blocks + piece.block];
      if (ranks_in(rounds, piece.content) > ranks_in(rounds, cell.content)) {
        cell.content = piece.content;
      }
    }
  }
}

}  // namespace

std::vector<Table> tables_of(const Rounds& rounds) {
  const auto make = is_matrix(rounds) ? matrix_of : table_of;
  Board board(rounds);
  std::vector<Table> tables{make(rounds, board)};
  while (board.advance()) {
    tables.push_back(make(rounds, board));
    if (!is_matrix(rounds)) keep_sent(rounds, rounds.rounds[board.round() - 1], tables.back());
  }
  return tables;
}

std::vector<CellName> cells_left(const Rounds& rounds, const Message& message) {
  std::vector<CellName> cells;
  for (const MessageBlock& piece : message.pieces) {
    if (!is_matrix(rounds)) {
      cells.push_back({message.from.rank, piece.block});
    } else if (ranks_in(rounds, piece.content) > 0) {
      const Content& content = rounds.contents[piece.content];
      cells.push_back({content.block, content.shares.front().rank});
    }
  }
  return cells;
}

std::vector<CellName> cells_reached(const Rounds& rounds, const Message& message) {
  std::vector<CellName> cells;
  if (!message.received) return cells;
  if (is_matrix(rounds)) {
    cells = cells_left(rounds, message);
    std::erase_if(cells, [&](const CellName& cell) { return cell.row != message.to; });
    return cells;
  }
  for (const MessageBlock& piece : message.pieces) cells.push_back({message.to, piece.to_block});
  return cells;
}

}  // namespace ccoll::show
