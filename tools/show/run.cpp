// SPDX-License-Identifier: Apache-2.0
#include "show/run.hpp"

#include <memory>
#include <string>
#include <utility>

#include "show/schedule_file.hpp"
#include "show/view.hpp"

namespace ccoll::show {

namespace {

struct RunOptions {
  std::string path;
  ViewOptions view;
};

Result<Output> show_file(const RunOptions& options) {
  auto file = read_schedule_file(options.path);
  CCOLL_TRY(file);
  CCOLL_TRY(check_view(options.view, file->call.problem));
  return view(picture_of(std::move(*file)), options.view);
}

}  // namespace

Action add_run(CLI::App& app) {
  const auto options = std::make_shared<RunOptions>();
  app.add_option("FILE", options->path, "a schedule: docs/schedule_format.md")->required();
  add_view_options(app, options->view);
  return [options] { return show_file(*options); };
}

}  // namespace ccoll::show
