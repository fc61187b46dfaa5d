// SPDX-License-Identifier: Apache-2.0

/// The list of all subcommands, and the command line's parser.

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <array>
#include <utility>
#include <vector>

#include "bench/command/columns.hpp"
#include "ccoll/version.hpp"
#include "core/text.hpp"
#include "show/commands/command.hpp"
#include "show/commands/compare.hpp"
#include "show/commands/list.hpp"
#include "show/commands/real_call.hpp"
#include "show/commands/run.hpp"
#include "show/commands/simulate.hpp"
#include "show/commands/steps.hpp"
#include "show/commands/trace.hpp"
#include "show/commands/verify.hpp"
#include "show/model/call.hpp"
#include "show/page/page.hpp"

namespace ccoll::show {

namespace {

constexpr std::array kCommands = {
    Command{"list", "the algorithms of an operation: depth, messages, elements, source", add_list},
    Command{"steps", "an algorithm at work, round by round", add_steps},
    Command{"call", "an operation really executed: all buffers before and after", add_real_call},
    Command{"page", "the same as a page for a browser, with a player", add_page},
    Command{"compare", "several algorithms on one clock, as figures and as a page", add_compare},
    Command{"verify", "the proof in words; what the verifier says of a broken one", add_verify},
    Command{"run", "a schedule of your own, proven and drawn", add_run},
    Command{"simulate", "how long algorithms take on a network, at any number of ranks",
            add_simulate},
    Command{"trace", "a real run's record (CCOLL_TRACE): its calls, waits and critical path",
            add_trace},
};

/// For a user who gave no argument: it fits a terminal of 24 lines.
Output overview() {
  const std::size_t width = bench::output_columns();
  std::string text =
      "cc-show shows collective operations at work: the very schedules that the\n"
      "library executes. Type these first:\n"
      "  cc-show steps all_reduce --algo ring -n 4    a ring at work, round by round\n"
      "  cc-show list all_reduce                      what each algorithm costs\n"
      "  cc-show verify all_reduce --algo ring        the proof that it is right\n"
      "\nCommands (cc-show COMMAND --help says more):\n";
  for (const Command& command : commands()) {
    text += bench::wrapped_beside(fmt::format("  {:<10}", command.name), command.meaning, width);
  }
  std::vector<std::string_view> names;
  for (const bench::Operation& operation : bench::operations())
    if (operation.kind && !operation.ragged) names.push_back(operation.name);
  text +=
      "\n" + bench::wrapped(
                 "Operations (cc-show list has their algorithms): " + joined(names) + ".", width);
  text +=
      "\nA course in twelve lessons: docs/learn/README.md\n"
      "Pictures that move, for a browser: docs/learn/gallery/index.html\n";
  return {text, 0};
}

/// CLI11 reports only that a word is left over.
std::string unknown_command(std::string_view word) {
  std::vector<std::string_view> names;
  for (const Command& command : commands()) names.push_back(command.name);
  return unknown_word("command", word, names);
}

/// CLI11 reports only that an option is left over.
std::string unexpected_option(const CLI::App& command, std::string_view word) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string meant = suggestion(word, views);
  return fmt::format("'{}' is not expected{}", word,
                     meant.empty() ? "" : fmt::format(": did you mean {}?", meant));
}

}  // namespace

std::span<const Command> commands() { return kCommands; }

Result<Output> run(int argc, const char* const* argv) {
  if (argc <= 1) return overview();
  const std::string_view first = argv[1];
  CLI::App app("Shows and proves collective operations.", "cc-show");
  app.set_version_flag("--version", fmt::format("cc-show {}", version()));
  app.require_subcommand(0, 1);
  std::vector<std::pair<CLI::App*, Action>> actions;
  for (const Command& command : commands()) {
    CLI::App* part = app.add_subcommand(std::string(command.name), std::string(command.meaning));
    actions.emplace_back(part, command.add(*part));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    const std::string help = chosen.empty() ? app.help() : chosen.front()->help("cc-show");
    return Output{bench::wrapped_lines(help, bench::output_columns()), 0};
  } catch (const CLI::CallForVersion&) {
    return Output{fmt::format("cc-show {}\n", version()), 0};
  } catch (const CLI::ParseError& error) {
    if (app.get_subcommands().empty() && !first.starts_with('-')) {
      return fail(ErrorKind::invalid_argument, "{}", unknown_command(first));
    }
    const auto chosen = app.get_subcommands();
    const auto extras = app.remaining(true);
    if (!chosen.empty() && !extras.empty() && extras.front().starts_with("--"))
      return fail(ErrorKind::invalid_argument, "{}",
                  unexpected_option(*chosen.front(), extras.front()));
    return fail(ErrorKind::invalid_argument, "{}", error.what());
  }
  for (const auto& [part, action] : actions) {
    if (part->parsed()) return action();
  }
  return overview();
}

}  // namespace ccoll::show
