// SPDX-License-Identifier: Apache-2.0
#include "show/commands/trace.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "bench/command/width.hpp"
#include "bench/report/whole_file.hpp"
#include "core/text.hpp"
#include "show/model/traced_job.hpp"
#include "show/page/trace_json.hpp"
#include "show/page/trace_page.hpp"
#include "show/text/dumps_text.hpp"
#include "show/text/trace_text.hpp"

namespace ccoll::show {

namespace {

struct TraceOptions {
  std::string directory;
  std::string job;
  std::string communicator;
  std::optional<std::uint64_t> call;
  std::string json;
  std::string page;
  std::optional<std::size_t> width;
};

Result<std::string> write_json(const TraceOptions& options, const TracedJob& job,
                               const TracedGroup& group) {
  const auto document = perfetto_json(job, group, options.call);
  CCOLL_TRY(document);
  CCOLL_TRY(bench::write_whole(options.json, *document));
  return fmt::format("{}: open it at https://ui.perfetto.dev\n", options.json);
}

Result<Output> show_trace(const TraceOptions& options) {
  if (!options.page.empty() && !options.call) {
    return fail(ErrorKind::invalid_argument, "--page {} is of one call: expected --call NUMBER",
                options.page);
  }
  for (const std::string& path : {options.json, options.page}) {
    if (!path.empty()) CCOLL_TRY(bench::check_writable(path));
  }
  if (!options.call && options.json.empty() && std::filesystem::is_directory(options.directory)) {
    auto dumps = dumps_text(options.directory, bench::columns_of(options.width));
    CCOLL_TRY(dumps);
    if (*dumps) return Output{std::move(**dumps), 0};
  }
  const auto job = read_job(options.directory, options.job);
  CCOLL_TRY(job);
  const auto group = group_named(*job, options.communicator);
  CCOLL_TRY(group);
  if (!options.json.empty()) {
    auto said = write_json(options, *job, **group);
    CCOLL_TRY(said);
    return Output{std::move(*said), 0};
  }
  if (!options.call)
    return Output{job_text(*job, fmt::format("cc-show trace {}", options.directory),
                           bench::columns_of(options.width)),
                  0};
  const auto call = call_in(**group, *options.call);
  CCOLL_TRY(call);
  if (!options.page.empty()) {
    auto said = write_trace_page(options.page, **group, *call);
    CCOLL_TRY(said);
    return Output{std::move(*said), 0};
  }
  return Output{call_text(**group, *call, bench::columns_of(options.width)), 0};
}

}  // namespace

Action add_trace(CLI::App& app) {
  const auto options = std::make_shared<TraceOptions>();
  app.add_option("DIR", options->directory,
                 "what CCOLL_TRACE named when the program ran; or CCOLL_DUMP, when it failed")
      ->required()
      ->check(path_problem);
  app.add_option("-o,--perfetto", options->json,
                 "write a time line for Perfetto or Chrome, like run.json: of one call, or of all")
      ->check(path_problem);
  app.add_option("--page", options->page,
                 "write a page of the call's rounds beside the algorithm's pictures")
      ->check(path_problem);
  app.add_option("--call", options->call, "look into the call with this number")
      ->check(CLI::Range(std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max()));
  app.add_option("-c,--communicator", options->communicator,
                 "of this communicator, by name or id (default: the one with the most calls)");
  bench::add_width_option(app, options->width);
  app.add_option("--job", options->job,
                 "of this job, where there are several (default: the newest)");
  return [options] { return show_trace(*options); };
}

}  // namespace ccoll::show
