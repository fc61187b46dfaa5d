// SPDX-License-Identifier: Apache-2.0
#include "bench/command/subcommands.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "core/text.hpp"

namespace ccoll::bench {

namespace {

constexpr TakenOption kOfMatrix[] = {{"-n", ""},          {"-e", "bytes of a message [1M]"},
                                     {"--transport", ""}, {"--timeout", ""},
                                     {"--json", ""},      {"--width", ""}};
constexpr TakenOption kOfTune[] = {{"-n", ""},
                                   {"-e", "the longest calls [2M]"},
                                   {"--transport", ""},
                                   {"--lanes", ""},
                                   {"--timeout", ""}};
constexpr TakenOption kOfExplain[] = {{"-n", ""},      {"-d", ""},     {"-o", ""},
                                      {"-r", ""},      {"--algo", ""}, {"--transport", ""},
                                      {"--lanes", ""}, {"--width", ""}};
constexpr TakenOption kOfExplainMeasured[] = {{"--iters", ""},   {"-w", ""},
                                              {"--timeout", ""}, {"--in-place", ""},
                                              {"--memory", ""},  {"--fresh", ""}};

constexpr TakenOption kOfInfo[] = {{"--width", ""}};

constexpr Subcommand kSubcommands[] = {
    {Options::Command::info, "info", "what this machine and build can do, what not, and why",
     kOfInfo},
    {Options::Command::matrix, "matrix", "latency and bandwidth of every pair of ranks", kOfMatrix},
    {Options::Command::tune, "tune",
     "times every algorithm here and keeps what links cost in CCOLL_TUNE_FILE, for all that choose "
     "one from now on; every transport in turn, unless --transport or -n is given",
     kOfTune},
    {Options::Command::explain, "explain", "which algorithm a call gets, and why", kOfExplain,
     kOfExplainMeasured},
};

std::string list(std::span<const TakenOption> options) {
  std::vector<std::string> names;
  for (const TakenOption& option : options) {
    names.push_back(option.meaning.empty() ? std::string(option.name)
                                           : fmt::format("{} ({})", option.name, option.meaning));
  }
  return joined(names);
}

/// "takes -n, -e (bytes of a message [1M])".
std::string taken(const Subcommand& subcommand) {
  std::string text = "takes " + list(subcommand.takes);
  if (!subcommand.takes_measured.empty())
    text += "; with --measure also " + list(subcommand.takes_measured);
  return text;
}

bool is_among(std::span<const TakenOption> options, const CLI::Option& option) {
  return std::ranges::any_of(
      options, [&](const TakenOption& each) { return option.check_name(std::string(each.name)); });
}

/// A line of the help.
std::string line_of(const CLI::Option& option, const std::string& meaning, bool is_positional) {
  std::string names = is_positional ? option.get_name(true) : option.get_name(false, true);
  if (!is_positional && option.get_items_expected_max() > 0) names += " " + option.get_type_name();
  constexpr std::size_t kNames = 27;
  const std::string gap = names.size() <= kNames ? std::string(kNames + 1 - names.size(), ' ')
                                                 : "\n" + std::string(kNames + 3, ' ');
  return fmt::format("  {}{}{}\n", names, gap, meaning);
}

/// The lines of `options`, as `app` has them.
std::string lines_of(const CLI::App& app, std::span<const TakenOption> options) {
  std::string text;
  for (const TakenOption& each : options) {
    const CLI::Option& option = *app.get_option(std::string(each.name));
    text += line_of(
        option, each.meaning.empty() ? option.get_description() : std::string(each.meaning), false);
  }
  return text;
}

/// "-b/--minbytes", "--check/--no-check".
std::string all_names(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return joined(names, "/");
}

}  // namespace

std::span<const Subcommand> subcommands() { return kSubcommands; }

std::string description(const Subcommand& subcommand) { return std::string(subcommand.meaning); }

std::string help(const CLI::App& app, const Subcommand& subcommand) {
  const CLI::App& own = *app.get_subcommand(std::string(subcommand.name));
  std::string usage = fmt::format("Usage: cc-bench {}", subcommand.name);
  std::string options;
  for (const CLI::Option* option : own.get_options()) {
    if (!option->get_positional()) continue;
    usage += " " + option->get_name(true);
    options += line_of(*option, option->get_description(), true);
  }
  options += lines_of(app, subcommand.takes);
  for (const CLI::Option* option : own.get_options()) {
    if (option->get_positional()) continue;
    options += line_of(*option, option->get_description(), false);
  }
  if (!subcommand.takes_measured.empty())
    options += "With --measure:\n" + lines_of(app, subcommand.takes_measured);
  return fmt::format("cc-bench {}: {}\n{} [OPTIONS]\n\n{}", subcommand.name, subcommand.meaning,
                     usage, options);
}

Status check_taken(const CLI::App& app, const Subcommand& subcommand, bool measured) {
  std::vector<std::string> others;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0 || option->get_positional()) continue;
    const bool is_taken = is_among(subcommand.takes, *option) ||
                          (measured && is_among(subcommand.takes_measured, *option));
    if (!is_taken) others.push_back(all_names(*option));
  }
  if (others.empty()) return {};
  return fail(ErrorKind::invalid_argument, "{} {} not for {}, which {}", joined(others, " and "),
              others.size() == 1 ? "is" : "are", subcommand.name, taken(subcommand));
}

}  // namespace ccoll::bench
