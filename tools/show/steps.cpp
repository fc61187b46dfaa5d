// SPDX-License-Identifier: Apache-2.0
#include "show/steps.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

#include "show/call.hpp"
#include "show/picture.hpp"
#include "show/rounds_json.hpp"
#include "show/screen.hpp"

namespace ccoll::show {

namespace {

struct StepsOptions {
  CallWords words;
  std::string format = "text";
  bool all = false;
  std::optional<std::size_t> step;
  Style style;
};

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

Result<Output> show_steps(const StepsOptions& options) {
  const auto call = call_of(options.words);
  CCOLL_TRY(call);
  if (options.format == "json" && call->problem.size > kMostRanksInJson) {
    return fail(ErrorKind::invalid_argument, "--format json -n {}: expected {} ranks at the most",
                call->problem.size, kMostRanksInJson);
  }
  const Picture picture = picture_of(*call);
  const int status = picture.report.ok() ? 0 : kWrong;
  if (options.format == "json") return Output{json_of(picture).dump() + "\n", status};
  const Screen screen(picture, options.style);
  if (options.step) {
    auto text = one_round(picture, screen, *options.step);
    CCOLL_TRY(text);
    return Output{std::move(*text), status};
  }
  return Output{all_rounds(picture, screen), status};
}

}  // namespace

Action add_steps(CLI::App& app) {
  const auto options = std::make_shared<StepsOptions>();
  add_call_options(app, options->words, kMostRanksDrawn);
  app.add_flag("--all", options->all, "every round, as plain text");
  app.add_option("--step", options->step, "one round; 0: before the first");
  app.add_flag_callback(
      "--values", [options] { options->style.values = true; },
      "the elements themselves, of which number i of rank r is 10r + i (default: where they fit)");
  app.add_flag_callback(
      "--no-values", [options] { options->style.values = false; }, "whose contributions only");
  app.add_option("--width", options->style.width, "columns of the screen")
      ->check(CLI::Range(40, 1000))
      ->capture_default_str();
  app.add_option("--format", options->format,
                 "text; json: everything, for pages and scripts (see tools/show/rounds_json.hpp)")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  return [options] { return show_steps(*options); };
}

}  // namespace ccoll::show
