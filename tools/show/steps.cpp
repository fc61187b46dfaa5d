// SPDX-License-Identifier: Apache-2.0
#include "show/steps.hpp"

#include <memory>

#include "show/call.hpp"
#include "show/picture.hpp"
#include "show/rounds_json.hpp"

namespace ccoll::show {

namespace {

struct StepsOptions {
  CallWords words;
  std::string format = "json";
};

Result<Output> show_steps(const StepsOptions& options) {
  const auto call = call_of(options.words);
  CCOLL_TRY(call);
  if (options.format == "json" && call->problem.size > kMostRanksInJson) {
    return fail(ErrorKind::invalid_argument, "--format json -n {}: expected {} ranks at the most",
                call->problem.size, kMostRanksInJson);
  }
  const Picture picture = picture_of(*call);
  return Output{json_of(picture).dump() + "\n", picture.report.ok() ? 0 : kWrong};
}

}  // namespace

Action add_steps(CLI::App& app) {
  const auto options = std::make_shared<StepsOptions>();
  add_call_options(app, options->words, kMostRanksDrawn);
  app.add_option("--format", options->format, "json: everything, for pages and scripts")
      ->check(CLI::IsMember({"json"}))
      ->capture_default_str();
  return [options] { return show_steps(*options); };
}

}  // namespace ccoll::show
