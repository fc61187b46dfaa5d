// SPDX-License-Identifier: Apache-2.0
#include "show/commands/view.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <string>

#include "bench/command/width.hpp"
#include "show/model/picture.hpp"
#include "show/model/schedule_file.hpp"
#include "show/page/rounds_json.hpp"
#include "show/text/follow.hpp"
#include "show/text/labels.hpp"
#include "show/text/player.hpp"
#include "show/text/screen.hpp"
#include "show/text/terminal.hpp"

namespace ccoll::show {

namespace {

/// --all is for documents: the output is the same everywhere.
Style style_of(const ViewOptions& options) {
  Style style;
  style.values = options.values;
  if (!options.all) {
    style.colour = wants_colour();
    style.width = terminal_size().columns;
  }
  style.width = options.width.value_or(style.width);
  return style;
}

std::string all_rounds(const Picture& picture, const Screen& screen) {
  std::string text = screen.introduction();
  Board board(picture.rounds);
  do {
    text += "\n" + screen.round(board);
  } while (board.advance());
  return text + "\n" + screen.conclusion();
}

Result<std::string> one_round(const Picture& picture, const Screen& screen, std::size_t wanted) {
  const std::size_t last = picture.rounds.rounds.size();
  if (wanted > last) {
    return fail(ErrorKind::invalid_argument, "--step {}: expected a round from 0 to {}", wanted,
                last);
  }
  Board board(picture.rounds);
  while (board.round() < wanted) board.advance();
  return screen.introduction() + "\n" + screen.round(board);
}

/// The block after the colon of "block:B" or "block:1". In an all_to_all it is the block for a
/// rank, given only by number.
Result<std::uint32_t> block_in(const std::string& word, const Rounds& rounds) {
  std::string text = word.substr(word.find(':') + 1);
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  const bool has_letters = rounds.problem.kind != Kind::all_to_all;
  for (std::uint32_t block = 0; block < rounds.blocks; ++block) {
    if (text == fmt::format("{}", block) || (has_letters && text == block_name(block)))
      return block;
  }
  if (!has_letters)
    return fail(ErrorKind::invalid_argument, "--follow {}: expected block from 0 to {}", word,
                rounds.blocks - 1);
  return fail(ErrorKind::invalid_argument, "--follow {}: expected block from A to {}, or 0 to {}",
              word, block_name(rounds.blocks - 1), rounds.blocks - 1);
}

/// The number after the colon of "rank:3", below `count`.
Result<std::uint32_t> number_in(const std::string& word, std::uint32_t count) {
  const std::string text = word.substr(word.find(':') + 1);
  std::uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end || number >= count) {
    return fail(ErrorKind::invalid_argument, "--follow {}: expected {} from 0 to {}", word,
                word.substr(0, word.find(':')), count - 1);
  }
  return number;
}

Result<std::string> followed(const Picture& picture, const ViewOptions& options) {
  if (options.follow.starts_with("rank:")) {
    const auto rank = number_in(options.follow, picture.rounds.problem.size);
    CCOLL_TRY(rank);
    Style style = style_of(options);
    style.only_rank = *rank;
    const Screen screen(picture, style);
    return fmt::format("{}\nrank {} through all rounds\n{}\n{}", screen.introduction(), *rank,
                       screen.history(), screen.conclusion());
  }
  if (options.follow.starts_with("block:")) {
    const auto block = block_in(options.follow, picture.rounds);
    CCOLL_TRY(block);
    return block_text(picture, *block, style_of(options).width);
  }
  return fail(ErrorKind::invalid_argument,
              "--follow {}: expected a block, like block:B, or a rank, like rank:3",
              options.follow);
}

/// If the form is wrong there are no rounds.
bool is_drawable(const Picture& picture) {
  return picture.report.ok() || !picture.rounds.inputs.empty();
}

Result<std::string> text_of(const Picture& picture, const ViewOptions& options) {
  const Rank size = picture.rounds.problem.size;
  if (options.rank && *options.rank >= size) {
    return fail(ErrorKind::invalid_argument, "--rank {}: expected a rank from 0 to {}",
                *options.rank, size - 1);
  }
  if (options.rank) return program_text(picture, *options.rank, style_of(options).width);
  if (!options.follow.empty()) return followed(picture, options);
  const Screen screen(picture, style_of(options));
  if (!is_drawable(picture)) return screen.title() + "\n" + screen.conclusion();
  if (options.step) return one_round(picture, screen, *options.step);
  return all_rounds(picture, screen);
}

}  // namespace

void add_view_options(CLI::App& app, ViewOptions& options) {
  app.add_flag("--all", options.all,
               "every round as plain text; without, in a terminal, arrow keys go through them");
  const CLI::Range number(0u, std::numeric_limits<unsigned>::max());
  app.add_option("--step", options.step, "one round; 0: before the first")->check(number);
  app.add_option("--rank", options.rank, "the program that this rank runs, step by step")
      ->check(number);
  app.add_option("--follow", options.follow,
                 "block:B, one block on its way; rank:3, one rank through all rounds");
  app.add_flag_callback(
      "--values", [&options] { options.values = true; },
      "the elements themselves, of which number i of rank r is 10r + i (default: where they fit)");
  app.add_flag_callback(
      "--no-values", [&options] { options.values = false; }, "whose contributions only");
  bench::add_width_option(app, options.width);
  app.add_option(
         "--format", options.format,
         "text; json: everything, for pages and scripts (see tools/show/page/rounds_json.hpp); "
         "schedule: what cc-show run reads")
      ->check(CLI::IsMember({"text", "json", "schedule"}))
      ->capture_default_str();
}

Status check_view(const ViewOptions& options, const Problem& problem) {
  if (options.format == "json" && problem.size > kMostRanksInJson) {
    return fail(ErrorKind::invalid_argument, "--format json -n {}: expected {} ranks at the most",
                problem.size, kMostRanksInJson);
  }
  return {};
}

Result<Output> view(const Picture& picture, const ViewOptions& options) {
  const int status = picture.report.ok() ? 0 : kWrong;
  if (options.format == "json") return Output{json_of(picture).dump() + "\n", status};
  if (options.format == "schedule") {
    return Output{schedule_text(picture.call, picture.programs), status};
  }
  const bool is_part = options.step || options.rank || !options.follow.empty();
  if (!options.all && !is_part && is_interactive() && is_drawable(picture)) {
    play(picture, style_of(options));
    return Output{Screen(picture, style_of(options)).conclusion(), status};
  }
  auto text = text_of(picture, options);
  CCOLL_TRY(text);
  return Output{std::move(*text), status};
}

}  // namespace ccoll::show
