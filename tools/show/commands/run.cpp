// SPDX-License-Identifier: Apache-2.0
#include "show/commands/run.hpp"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <utility>

#include "bench/command/width.hpp"
#include "core/text.hpp"
#include "show/commands/view.hpp"
#include "show/model/schedule_file.hpp"
#include "show/real/against.hpp"
#include "show/real/execute.hpp"
#include "show/real/local_ranks.hpp"

namespace ccoll::show {

namespace {

struct RunOptions {
  std::string path;
  bool execute = false;
  std::string transport;  ///< empty: nothing is timed
  ViewOptions view;
};

/// Every algorithm is timed over connections whose both ends are in this process: more ranks take
/// minutes, and more descriptors than a process has.
constexpr Rank kMostRanksConnected = 16;

Result<Output> execute_file(const Picture& picture, const std::string& transport,
                            std::size_t width) {
  ExecuteOptions options;
  options.timed = !transport.empty();
  if (options.timed) options.transport = transport;
  const auto executed = execute(picture, options);
  CCOLL_TRY(executed);
  Output output{executed_text(picture, *executed, options.transport, width),
                executed->wrong == 0 ? 0 : kWrong};
  if (!options.timed) return output;
  const auto against = against_built_ins(picture, *executed, transport, width);
  CCOLL_TRY(against);
  output.text += against->text;
  if (!against->all_the_same) output.status = kWrong;
  return output;
}

Result<Output> show_file(const RunOptions& options) {
  if (!options.transport.empty()) {
    if (!options.execute)
      return fail(ErrorKind::invalid_argument, "--transport {}: expected --execute beside it",
                  options.transport);
    CCOLL_TRY(check_transport(options.transport));
  }
  auto file = read_schedule_file(options.path);
  if (!file) return tl::unexpected(file.error());
  CCOLL_TRY(check_view(options.view, file->call.problem));
  if (!options.transport.empty() && options.transport != "inproc" &&
      file->call.problem.size > kMostRanksConnected)
    return fail(ErrorKind::invalid_argument,
                "--transport {} with {} ranks: each pair has a connection in this one process, "
                "expected at most {}; or inproc",
                options.transport, file->call.problem.size, kMostRanksConnected);
  const Picture picture = picture_of(std::move(*file));
  // The verifier's objections are shown instead.
  if (!options.execute || !picture.report.ok()) return view(picture, options.view);
  return execute_file(picture, options.transport, bench::columns_of(options.view.width));
}

}  // namespace

Action add_run(CLI::App& app) {
  const auto options = std::make_shared<RunOptions>();
  app.add_option("FILE", options->path, "a schedule: docs/schedule_format.md")
      ->required()
      ->check(path_problem);
  app.add_flag("--execute", options->execute,
               "run it by the library's engine, with element i of rank r 10r + i, where the "
               "verifier finds nothing wrong");
  app.add_option("--transport", options->transport,
                 "with --execute: run it over inproc, shm or tcp, a thread for each rank, and take "
                 "its time beside the library's own schedules");
  add_view_options(app, options->view);
  return [options] { return show_file(*options); };
}

}  // namespace ccoll::show
