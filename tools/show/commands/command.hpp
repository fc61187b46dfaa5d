// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the subcommands of cc-show have in common. Each has a file of its own, which offers a
/// function `Action add_NAME(CLI::App&)`, and a row in commands.cpp.

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "core/result.hpp"

namespace CLI {
class App;
}

namespace ccoll::show {

/// What a command has to say on standard output, and the status to exit with.
struct Output {
  std::string text;
  int status = 0;
  /// Where the answer takes its time: what comes after `text`, asked for until that is empty.
  std::function<Result<std::string>()> more = {};
};

/// The status of a proof that failed, and of what else is not as it should be.
inline constexpr int kWrong = 1;
inline constexpr int kWrongUsage = 2;

/// Carries the command out when its options have been read. A failure is wrong usage: its message
/// says what was given and what was expected.
using Action = std::function<Result<Output>()>;

struct Command {
  std::string_view name;
  std::string_view meaning;  ///< one line of the overview and of --help
  /// Adds the command's options to `app`, which is its own part of the command line.
  Action (*add)(CLI::App& app);
};

/// In the order in which they are listed.
std::span<const Command> commands();

/// Reads the command line and carries out what it asks for.
Result<Output> run(int argc, const char* const* argv);

}  // namespace ccoll::show
