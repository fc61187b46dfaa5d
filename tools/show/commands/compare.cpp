// SPDX-License-Identifier: Apache-2.0
#include "show/commands/compare.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "bench/command/columns.hpp"
#include "bench/command/width.hpp"
#include "bench/report/whole_file.hpp"
#include "core/text.hpp"
#include "show/model/call.hpp"
#include "show/model/picture.hpp"
#include "show/page/curves.hpp"
#include "show/page/page.hpp"
#include "show/text/labels.hpp"
#include "sim/arrivals.hpp"

namespace ccoll::show {

namespace {

struct CompareOptions {
  CallWords words;
  std::vector<std::string> names;  ///< names of algorithms, maybe after the operation's
  double latency_us = LinkCosts{}.latency_ns / 1e3;
  double bandwidth_gb_per_s = LinkCosts{}.bandwidth_bytes_per_s / 1e9;
  bool writes = false;  ///< writes a page
  std::string path;
  std::optional<std::size_t> width;
};

/// CLI::Range accepts values that are not numbers.
std::function<std::string(const std::string&)> finite_from(double least, double most) {
  return [=](const std::string& text) {
    double value = 0;
    const bool is_number = CLI::detail::lexical_cast(text, value);
    if (is_number && value >= least && value <= most) return std::string();
    return fmt::format("'{}' is not a number from {:g} to {:g}", text, least, most);
  };
}

LinkCosts links_of(const CompareOptions& options) {
  LinkCosts links;
  links.latency_ns = options.latency_us * 1e3;
  links.bandwidth_bytes_per_s = options.bandwidth_gb_per_s * 1e9;
  return links;
}

std::string clock_text(const CompareOptions& options) {
  return fmt::format(
      "By latency and bandwidth alone: a rank sends and receives {:g} GB/s at most, a message is "
      "{:g} us longer on its way, and steps and combining take no time. A round is over when its "
      "last message has come. This is "
      "one window: large buffers pass in many, which overlap.",
      options.bandwidth_gb_per_s, options.latency_us);
}

/// Each rank has one link out and one link in. Only these and the latency take time, and no rank
/// waits for room.
sim::Network network_of(const LinkCosts& links) {
  sim::Network network;
  network.inside.latency_ns = links.latency_ns;
  network.inside.bandwidth_bytes_per_s = links.bandwidth_bytes_per_s;
  network.inside.step_ns = 0;
  network.across = network.inside;
  network.port_bytes_per_s = network.nic_bytes_per_s = links.bandwidth_bytes_per_s;
  network.reduce_bytes_per_s = 1e18;
  network.slots_per_link = 1024;
  return network;
}

/// One algorithm in the comparison.
struct Runner {
  Picture picture;
  std::vector<double> ends_us;
};

Result<std::vector<Runner>> runners_of(const CompareOptions& options) {
  CallWords words = options.words;
  auto name = options.names.begin();
  words.operation = "all_reduce";
  if (operation_named(*name)) words.operation = *name++;
  if (options.names.end() - name < 2) {
    return fail(ErrorKind::invalid_argument,
                "compare {}: expected two algorithms or more, like compare ring double_tree",
                joined(options.names, " "));
  }
  std::vector<Runner> runners;
  for (; name != options.names.end(); ++name) {
    words.algorithm = *name;
    const auto call = call_of(words);
    CCOLL_TRY(call);
    Runner runner{picture_of(*call), {}};
    auto ends = round_ends_us(runner.picture, links_of(options));
    CCOLL_TRY(ends);
    runner.ends_us = std::move(*ends);
    runners.push_back(std::move(runner));
  }
  return runners;
}

std::string_view name_of(const Runner& runner) {
  return to_string(runner.picture.call.entry->algorithm);
}

double time_us(const Runner& runner) { return runner.ends_us.empty() ? 0 : runner.ends_us.back(); }

std::string title_of(const std::vector<Runner>& runners) {
  const Picture& first = runners.front().picture;
  std::vector<std::string_view> names;
  for (const Runner& runner : runners) names.push_back(name_of(runner));
  return fmt::format("{} by {}: {} rank{}, {} elements", to_string(first.call.problem.kind),
                     joined(names), first.call.problem.size,
                     first.call.problem.size == 1 ? "" : "s", grouped(first.call.problem.count));
}

std::string table(const std::vector<Runner>& runners) {
  std::string text = fmt::format("  {:<20}{:>8}{:>14}\n", "algorithm", "rounds", "time (us)");
  for (const Runner& runner : runners) {
    text += fmt::format("  {:<20}{:>8}{:>14.1f}\n", name_of(runner), runner.ends_us.size(),
                        time_us(runner));
  }
  return text;
}

/// The same algorithms, at other sizes and on other networks.
CurvesAsked asked_of(const std::vector<Runner>& runners, const CompareOptions& options) {
  const Call& call = runners.front().picture.call;
  CurvesAsked asked;
  asked.operation = call.operation;
  asked.type = call.type;
  asked.root = call.problem.root;
  asked.ranks = call.problem.size;
  asked.bytes = call.problem.count *
                bench::size_unit(*call.operation, call.type, static_cast<int>(call.problem.size));
  asked.links = links_of(options);
  for (const Runner& runner : runners)
    asked.algorithms.push_back(runner.picture.call.entry->algorithm);
  return asked;
}

nlohmann::ordered_json document_of(const std::vector<Runner>& runners,
                                   const CompareOptions& options) {
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (const Runner& runner : runners) {
    nlohmann::ordered_json run = run_of(runner.picture);
    for (std::size_t i = 0; i < runner.ends_us.size(); ++i) {
      run["rounds"][i + 1]["end"] = runner.ends_us[i];
    }
    runs.push_back(std::move(run));
  }
  nlohmann::ordered_json compare = {{"clock", clock_text(options)}, {"unit", "us"}};
  if (runners.front().picture.call.operation->has_data)
    compare["curves"] = curves_json(asked_of(runners, options));
  return {{"runs", std::move(runs)}, {"compare", std::move(compare)}};
}

Result<Output> compare(const CompareOptions& options) {
  if (options.writes) CCOLL_TRY(bench::check_writable(options.path));
  const auto runners = runners_of(options);
  CCOLL_TRY(runners);
  const std::string title = title_of(*runners);
  const std::size_t width = bench::columns_of(options.width);
  Output output{fmt::format("{}\n{}\n{}", bench::wrapped(title, width), table(*runners),
                            bench::wrapped(clock_text(options), width)),
                0};
  for (const Runner& runner : *runners) {
    if (!runner.picture.report.ok()) output.status = kWrong;
  }
  if (!options.writes) return output;
  const auto written = write_page(options.path, title, document_of(*runners, options));
  CCOLL_TRY(written);
  output.text += "\n" + *written;
  return output;
}

}  // namespace

Action add_compare(CLI::App& app) {
  const auto options = std::make_shared<CompareOptions>();
  options->words.ranks = 8;
  options->words.count = 1 << 10;
  add_call_options(app, options->words, kMostRanksOnPage);
  app.remove_option(app.get_option("OP"));
  app.remove_option(app.get_option("--algo"));
  app.add_option("NAMES", options->names,
                 "the algorithms, like ring double_tree; before them the operation, if it is not "
                 "all_reduce")
      ->required();
  app.add_option("--latency", options->latency_us, "microseconds that a message takes at least")
      ->check(finite_from(0, 1e9))
      ->capture_default_str();
  app.add_option("--bandwidth", options->bandwidth_gb_per_s, "gigabytes per second of a rank")
      ->check(finite_from(1e-6, 1e6))
      ->capture_default_str();
  bench::add_width_option(app, options->width);
  const auto* page =
      app.add_option("-o,--output", options->path, "a page to write, like compare.html");
  return [options, page] {
    options->writes = page->count() > 0;
    return compare(*options);
  };
}

Result<std::vector<double>> round_ends_us(const Picture& picture, const LinkCosts& links) {
  const Call& call = picture.call;
  const auto arrivals = sim::arrivals_of(network_of(links), call.problem, size_of(call.type),
                                         one_window(call.problem, call.entry->algorithm));
  CCOLL_TRY(arrivals);
  using Way = std::tuple<Rank, std::uint16_t, Rank>;
  std::map<Way, std::vector<sim::Picoseconds>> coming;  // the next one is last
  for (const sim::Arrivals& each : *arrivals)
    coming[{each.from, each.lane, each.to}].assign(each.times.rbegin(), each.times.rend());
  std::vector<double> ends;
  sim::Picoseconds now = 0;
  for (const Round& round : picture.rounds.rounds) {
    for (const Message& message : round.messages) {
      auto& times = coming[{message.from.rank, message.from.lane, message.to}];
      if (times.empty())
        return fail(ErrorKind::internal, "a message of {} is not in the simulation",
                    call_text(call));
      now = std::max(now, times.back());
      times.pop_back();
    }
    ends.push_back(static_cast<double>(now) / 1e6);
  }
  return ends;
}

}  // namespace ccoll::show
