// SPDX-License-Identifier: Apache-2.0
#include "show/run.hpp"

#include <memory>
#include <string>
#include <utility>

#include "show/execute.hpp"
#include "show/schedule_file.hpp"
#include "show/view.hpp"

namespace ccoll::show {

namespace {

struct RunOptions {
  std::string path;
  bool execute = false;
  ViewOptions view;
};

Result<Output> show_file(const RunOptions& options) {
  auto file = read_schedule_file(options.path);
  if (!file) return tl::unexpected(file.error());
  CCOLL_TRY(check_view(options.view, file->call.problem));
  const Picture picture = picture_of(std::move(*file));
  if (!options.execute) return view(picture, options.view);
  // What the verifier objects to is shown instead.
  if (!picture.report.ok()) return view(picture, options.view);
  const auto executed = execute(picture);
  CCOLL_TRY(executed);
  return Output{executed_text(picture, *executed), executed->wrong == 0 ? 0 : kWrong};
}

}  // namespace

Action add_run(CLI::App& app) {
  const auto options = std::make_shared<RunOptions>();
  app.add_option("FILE", options->path, "a schedule: docs/schedule_format.md")->required();
  app.add_flag("--execute", options->execute,
               "run it by the library's engine, with element i of rank r 10r + i, where the "
               "verifier finds nothing wrong");
  add_view_options(app, options->view);
  return [options] { return show_file(*options); };
}

}  // namespace ccoll::show
