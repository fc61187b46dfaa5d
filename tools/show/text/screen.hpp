// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A picture as text, one screen for each round: every rank's blocks, its sends and receives, and
/// their totals so far. Plain ASCII; colours only repeat marks and words.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/command/columns.hpp"
#include "show/model/cells.hpp"
#include "show/model/picture.hpp"
#include "show/text/labels.hpp"
#include "show/text/palette.hpp"

namespace ccoll::show {

struct Style {
  bool colour = false;
  std::size_t width = bench::kUsualColumns;
  std::optional<bool> values;     ///< numbers below the contents; none: if they fit
  std::optional<Rank> only_rank;  ///< only this rank's row
};

class Screen {
 public:
  /// `picture` must live as long.
  Screen(const Picture& picture, const Style& style);

  /// The call, and whether its schedule is right.
  std::string title() const;
  /// The meaning of the marks in the table.
  std::string legend() const;
  /// Title and legend, the trees if there are any, and what is omitted.
  std::string introduction() const;
  /// The board of one round.
  std::string round(const Board& board) const;
  /// One rank's row in every round; `style.only_rank` selects it.
  std::string history() const;
  /// The verdict, and whether the traffic agrees with the formulas.
  std::string conclusion() const;

 private:
  /// The text of a block.
  struct Cell {
    std::string text;
    std::string numbers;
    std::optional<Tone> tone;
  };
  /// One rank's change to a block in a round.
  struct Event {
    std::uint32_t block;
    bool received;
    bool reduces;
  };

  /// The columns beside a table's cells, the most comfortable layout first.
  struct Way {
    bool is_tight = false;
    RankStyle ranks = RankStyle::word;
    bool has_block_word = true;  ///< heads say "block A", not "A"
    bool has_tallies = true;
    bool has_moves = true;
  };
  static const Way kWays[];

  void choose_layout();
  bool fits(const Way& way);
  /// The table's width with the chosen layout; measures the columns.
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
  std::string tallies_text(std::string_view messages, std::string_view elems) const;
  /// Coloured if `style_` has colours: a cell, or the first letter of a text about a block.
  std::string toned(const std::string& text, std::optional<Tone> tone) const;
  std::string lettered(const std::string& text) const;
  std::string so_far(const Board& board) const;
  std::string what_is_left_out() const;

  const Picture& picture_;
  Style style_;
  bool is_matrix_ = false;  ///< an all_to_all: cells show the round in which a block arrived
  bool named_ = true;       ///< contributions individually
  bool numbers_ = false;
  Way way_;
  std::vector<Rank> ranks_;            ///< the rows
  std::vector<std::uint32_t> blocks_;  ///< the columns
  std::size_t name_width_ = 0;
  std::size_t cell_width_ = 0;
  std::size_t sent_width_ = 0;
  std::size_t received_width_ = 0;
  std::size_t messages_width_ = 0;
  std::size_t elems_width_ = 0;
  std::vector<Table> tables_;  ///< by round
  std::vector<std::size_t>
      arrivals_;  ///< by rank and block, the round; 0: not yet, or from the start
  Tally most_;    ///< of any rank, in the end
};

}  // namespace ccoll::show
