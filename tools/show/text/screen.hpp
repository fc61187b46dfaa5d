// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A picture as text, one screen for each round: every rank's blocks, what it sends and receives,
/// and how much that is so far. Plain ASCII; colours only repeat what marks and words say.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "show/model/cells.hpp"
#include "show/model/picture.hpp"

namespace ccoll::show {

struct Style {
  bool colour = false;
  std::size_t width = 100;        ///< columns
  std::optional<bool> values;     ///< numbers below what is held; none: where they fit
  std::optional<Rank> only_rank;  ///< rows of this rank alone
};

class Screen {
 public:
  /// `picture` must live as long.
  Screen(const Picture& picture, const Style& style);

  /// What is shown, the trees if there are any, and what the marks mean.
  std::string introduction() const;
  /// The board of one round.
  std::string round(const Board& board) const;
  /// One rank's row in every round; `style.only_rank` has it.
  std::string history() const;
  /// The verdict, and whether what was sent is what the formulas say.
  std::string conclusion() const;

 private:
  /// What is shown of a block.
  struct Cell {
    std::string text;
    std::string numbers;
    std::string_view colour;
  };
  /// What one rank does to a block in a round.
  struct Event {
    std::uint32_t block;
    bool received;
    bool reduces;
  };

  void choose_layout();
  /// How wide the table is with what is chosen; measures the columns.
  std::size_t measure();
  void note_arrivals();
  std::vector<Event> events_of(const Board& board, Rank rank) const;
  Cell cell(const Board& board, const std::vector<Event>& events, Rank rank,
            std::uint32_t block) const;
  Cell arrival_cell(const Board& board, Rank rank, std::uint32_t block) const;
  std::string numbers_text(std::uint32_t content) const;
  std::string table(const Board& board) const;
  /// `name` stands before it.
  std::string row(const Board& board, Rank rank, const std::string& name) const;
  std::string head_of(std::uint32_t block) const;
  std::string heading() const;
  std::string so_far(const Board& board) const;
  std::string legend() const;
  std::string what_is_left_out() const;
  std::string painted(const std::string& text, std::string_view colour) const;

  const Picture& picture_;
  Style style_;
  bool is_matrix_ = false;  ///< an all_to_all: cells say in which round a block came
  bool named_ = true;       ///< contributions one by one
  bool numbers_ = false;
  bool squeezed_ = false;              ///< short heads and narrow gaps
  std::vector<Rank> ranks_;            ///< the rows
  std::vector<std::uint32_t> blocks_;  ///< the columns
  std::size_t cell_width_ = 0;
  std::size_t sent_width_ = 0;
  std::size_t received_width_ = 0;
  std::vector<Table> tables_;  ///< by round
  std::vector<std::size_t>
      arrivals_;  ///< by rank and block, the round; 0: not yet, or from the start
  Tally most_;    ///< of any rank, in the end
};

}  // namespace ccoll::show
