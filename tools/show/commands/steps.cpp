// SPDX-License-Identifier: Apache-2.0
#include "show/commands/steps.hpp"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <utility>

#include "show/commands/view.hpp"
#include "show/model/breaking.hpp"
#include "show/model/call.hpp"
#include "show/model/picture.hpp"

namespace ccoll::show {

namespace {

struct StepsOptions {
  CallWords words;
  std::string break_how;
  ViewOptions view;
};

Result<Output> show_steps(const StepsOptions& options) {
  const auto call = call_of(options.words);
  CCOLL_TRY(call);
  CCOLL_TRY(check_view(options.view, call->problem));
  if (options.break_how.empty()) return view(picture_of(*call), options.view);
  auto wrong = broken(*call, options.break_how);
  CCOLL_TRY(wrong);
  return view(picture_of(*call, std::move(*wrong)), options.view);
}

}  // namespace

Action add_steps(CLI::App& app) {
  const auto options = std::make_shared<StepsOptions>();
  add_call_options(app, options->words, kMostRanksDrawn);
  add_break_option(app, options->break_how);
  add_view_options(app, options->view);
  return [options] { return show_steps(*options); };
}

}  // namespace ccoll::show
