// SPDX-License-Identifier: Apache-2.0
#pragma once

/// cc-bench's commands besides measuring operations, and the options that each takes: all others
/// are refused.

#include <span>
#include <string>
#include <string_view>

#include "bench/command/options.hpp"

namespace CLI {
class App;
}

namespace ccoll::bench {

struct TakenOption {
  std::string_view name;     ///< the short one, if any
  std::string_view meaning;  ///< if it differs from that with operations
};

struct Subcommand {
  Options::Command command;
  std::string_view name;
  std::string_view meaning;
  std::span<const TakenOption> takes;
  /// Also taken if it measures (explain --measure).
  std::span<const TakenOption> takes_measured = {};
};

std::span<const Subcommand> subcommands();

/// Its meaning, for the general help.
std::string description(const Subcommand& subcommand);

/// Its own help: the usage, and the options of `app` that it takes.
std::string help(const CLI::App& app, const Subcommand& subcommand);

/// Checks that `app` got only options that `subcommand` takes.
Status check_taken(const CLI::App& app, const Subcommand& subcommand, bool measured);

}  // namespace ccoll::bench
