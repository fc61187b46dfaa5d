// SPDX-License-Identifier: Apache-2.0
#include "show/page/rounds_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "schedule/text.hpp"
#include "show/model/cells.hpp"
#include "show/model/shape.hpp"
#include "show/text/explain.hpp"
#include "show/text/labels.hpp"
#include "show/text/words.hpp"

namespace ccoll::show {

namespace {

using nlohmann::ordered_json;

/// How often one rank's contribution is listed at most: a broken schedule may add it any number of
/// times.
constexpr std::uint64_t kMostTimes = 16;

constexpr int kSchema = 1;
constexpr std::size_t kExplanationWidth = 100;

/// `load`: a Load or a Tally.
template <typename T>
ordered_json load_json(const T& load) {
  return {{"messages", load.messages},
          {"elems_sent", load.elems_sent},
          {"elems_reduced", load.elems_reduced}};
}

ordered_json content_number(std::uint32_t content) {
  return content >= kSpoilt ? ordered_json() : ordered_json(content);
}

ordered_json verdict_json(const Picture& picture) {
  ordered_json findings = ordered_json::array();
  for (const Finding& finding : picture.report.findings) {
    findings.push_back({{"kind", to_string(finding.kind)}, {"message", finding.message}});
  }
  return {{"ok", picture.report.ok()},
          {"text", verdict_text(picture)},
          {"slots", picture.report.slots_needed},
          {"findings", findings},
          {"explanation", explanation(picture, kExplanationWidth)}};
}

ordered_json trees_json(const Rounds& rounds) {
  ordered_json trees = ordered_json::array();
  for (const Tree& tree : trees_of(rounds)) {
    ordered_json parents = ordered_json::array();
    for (const auto& parent : tree.parents) {
      parents.push_back(parent ? ordered_json(*parent) : ordered_json());
    }
    trees.push_back({{"blocks", tree.blocks}, {"root", tree.root}, {"parents", parents}});
  }
  return trees;
}

ordered_json programs_json(const Picture& picture) {
  ordered_json programs = ordered_json::array();
  for (const Program& program : picture.programs) {
    ordered_json lanes = ordered_json::array();
    for (std::size_t number = 0; number < program.lanes.size(); ++number) {
      ordered_json steps = ordered_json::array();
      for (const Step& step : program.lanes[number].steps) {
        steps.push_back(to_string(step, static_cast<std::uint16_t>(number)));
      }
      lanes.push_back({{"lane", number}, {"steps", steps}});
    }
    programs.push_back(lanes);
  }
  return programs;
}

ordered_json contents_json(const Picture& picture) {
  const Rounds& rounds = picture.rounds;
  ordered_json contents = ordered_json::array();
  for (std::size_t number = 0; number < rounds.contents.size(); ++number) {
    const Content& content = rounds.contents[number];
    ordered_json ranks = ordered_json::array();
    bool once = true;
    for (const Share& share : content.shares) {
      for (std::uint64_t i = 0; i < std::min(share.times, kMostTimes); ++i) {
        ranks.push_back(share.rank);
      }
      once = once && share.times == 1;
    }
    contents.push_back({{"block", content.block},
                        {"text", label_of(rounds, static_cast<std::uint32_t>(number))},
                        {"ranks", ranks},
                        {"sources", content.sources},
                        {"complete", once && content.shares.size() == rounds.problem.size},
                        {"numbers", picture.numbers[number]}});
  }
  return contents;
}

ordered_json names_json(const std::vector<CellName>& cells) {
  ordered_json json = ordered_json::array();
  for (const CellName& cell : cells) json.push_back({cell.row, cell.column});
  return json;
}

ordered_json message_json(const Rounds& rounds, const Message& message) {
  ordered_json pieces = ordered_json::array();
  for (const MessageBlock& piece : message.pieces) {
    pieces.push_back({{"block", piece.block},
                      {"to_block", piece.to_block},
                      {"content", content_number(piece.content)},
                      {"elems", piece.elems}});
  }
  ordered_json json = {{"from", message.from.rank},
                       {"lane", message.from.lane},
                       {"step", message.from.step},
                       {"to", message.to}};
  if (message.received) {
    json["to_lane"] = message.by.lane;
    json["to_step"] = message.by.step;
  }
  json["received"] = message.received;
  json["reduces"] = message.reduces;
  json["elems"] = message.elems();
  json["pieces"] = pieces;
  json["left"] = names_json(cells_left(rounds, message));
  json["reached"] = names_json(cells_reached(rounds, message));
  return json;
}

ordered_json held_json(const Rounds& rounds, const Board& board) {
  ordered_json all = ordered_json::array();
  for (Rank rank = 0; rank < rounds.problem.size; ++rank) {
    ordered_json held = ordered_json::array();
    for (const Holding& holding : board.held_by(rank)) {
      held.push_back({{"place", to_string(holding.place)},
                      {"lane", holding.lane},
                      {"block", holding.block},
                      {"content", content_number(holding.content)},
                      {"result", holding.place == Place::output &&
                                     is_result(rounds, rank, holding.block, holding.content)}});
    }
    all.push_back(held);
  }
  return all;
}

/// One array per row of the table; `append` adds to it for each of the row's cells, or does not.
template <typename Append>
ordered_json rows_json(const Rounds& rounds, const Append& append) {
  ordered_json rows = ordered_json::array();
  for (Rank row = 0; row < rounds.problem.size; ++row) {
    ordered_json columns = ordered_json::array();
    for (std::uint32_t column = 0; column < rounds.blocks; ++column) {
      append(columns, column, std::size_t{row} * rounds.blocks + column);
    }
    rows.push_back(columns);
  }
  return rows;
}

ordered_json cells_json(const Rounds& rounds, const Table& table) {
  return rows_json(rounds, [&](ordered_json& row, std::uint32_t, std::size_t cell) {
    row.push_back(content_number(table[cell].content));
  });
}

ordered_json done_json(const Rounds& rounds, const Table& table) {
  return rows_json(rounds, [&](ordered_json& row, std::uint32_t column, std::size_t cell) {
    if (table[cell].done) row.push_back(column);
  });
}

ordered_json round_json(const Picture& picture, const Board& board, const Table& table) {
  const Rounds& rounds = picture.rounds;
  ordered_json messages = ordered_json::array();
  std::uint64_t depth = 0;
  if (board.round() > 0) {
    const Round& round = rounds.rounds[board.round() - 1];
    depth = round.depth;
    for (const Message& message : round.messages) {
      messages.push_back(message_json(rounds, message));
    }
  }
  ordered_json so_far = ordered_json::array();
  for (Rank rank = 0; rank < rounds.problem.size; ++rank) {
    so_far.push_back(load_json(board.tally(rank)));
  }
  const Progress progress = progress_of(rounds, board);
  return {{"round", board.round()},
          {"depth", depth},
          {"phase", phase_text(picture, board.round())},
          {"sentence", round_sentence(picture, board)},
          {"messages", messages},
          {"cells", cells_json(rounds, table)},
          {"done", done_json(rounds, table)},
          {"held", held_json(rounds, board)},
          {"so_far", so_far},
          {"results", {{"complete", progress.complete}, {"all", progress.all}}}};
}

void add_call(const Picture& picture, ordered_json& json) {
  const Call& call = picture.call;
  const bool ours = call.entry != nullptr;
  const Problem& problem = call.problem;
  json["title"] = call_text(call);
  json["operation"] = to_string(problem.kind);
  json["meaning"] = call.operation->meaning;
  json["algorithm"] = ours ? ordered_json(to_string(call.entry->algorithm)) : ordered_json();
  json["source"] = ours ? ordered_json(call.entry->source) : ordered_json();
  json["combines"] = reduces(problem.kind);
  json["ranks"] = problem.size;
  json["root"] = call.operation->rooted ? ordered_json(problem.root) : ordered_json();
  json["count"] = problem.count;
  json["blocks"] = picture.rounds.blocks;
  json["block_elems"] = nullptr;
  if (problem.block_counts.empty() || problem.kind != Kind::all_to_all) {
    std::vector<std::uint64_t> elems;
    for (std::uint32_t block = 0; block < picture.rounds.blocks; ++block) {
      elems.push_back(block_elems(problem, picture.rounds.blocks, block));
    }
    json["block_elems"] = elems;
  }
  json["op"] = reduces(problem.kind) ? ordered_json(to_string(call.op)) : ordered_json();
  json["type"] = to_string(call.type);
}

}  // namespace

ordered_json json_of(const Picture& picture) {
  ordered_json json = {{"schema", kSchema}};
  add_call(picture, json);
  json["broken"] = picture.broken.empty() ? ordered_json() : ordered_json(picture.broken);
  json["theory"] = nullptr;
  if (picture.theory) {
    json["theory"] = {{"rounds", picture.theory->depth},
                      {"busiest", load_json(picture.theory->busiest)},
                      {"total", load_json(picture.theory->total)}};
  }
  json["verdict"] = verdict_json(picture);
  json["trees"] = trees_json(picture.rounds);
  json["trees_are"] = relation_of(trees_of(picture.rounds));
  json["programs"] = programs_json(picture);
  json["contents"] = contents_json(picture);
  ordered_json rounds = ordered_json::array();
  const std::vector<Table> tables = tables_of(picture.rounds);
  Board board(picture.rounds);
  do {
    rounds.push_back(round_json(picture, board, tables[board.round()]));
  } while (board.advance());
  json["rounds"] = rounds;
  return json;
}

}  // namespace ccoll::show
