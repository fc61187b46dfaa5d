// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The common parts of cc-show's subcommands. Each has a file of its own, with a function `Action
/// add_NAME(CLI::App&)`, and a row in commands.cpp.

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "core/result.hpp"

namespace CLI {
class App;
}

namespace ccoll::show {

/// A command's text for standard output, and the exit status.
struct Output {
  std::string text;
  int status = 0;
  /// For slow answers: the text after `text`, called until it returns an empty one.
  std::function<Result<std::string>()> more = {};
};

/// The exit status of a failed proof, and of other errors.
inline constexpr int kWrong = 1;
inline constexpr int kWrongUsage = 2;

/// Runs the command after its options have been read. A failure is wrong usage: its message names
/// the given and the expected value.
using Action = std::function<Result<Output>()>;

struct Command {
  std::string_view name;
  std::string_view meaning;  ///< one line of the overview and of --help
  /// Adds the command's options to `app`, its part of the command line.
  Action (*add)(CLI::App& app);
};

/// In the order of the overview.
std::span<const Command> commands();

/// Reads the command line and runs the command.
Result<Output> run(int argc, const char* const* argv);

}  // namespace ccoll::show
