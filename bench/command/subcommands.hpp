// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What cc-bench can be asked for beside measuring operations, and which options each takes: all
/// others are refused.

#include <span>
#include <string>
#include <string_view>

#include "bench/command/options.hpp"

namespace CLI {
class App;
}

namespace ccoll::bench {

struct TakenOption {
  std::string_view name;     ///< the short one where it has one
  std::string_view meaning;  ///< where it is another than with operations
};

struct Subcommand {
  Options::Command command;
  std::string_view name;
  std::string_view meaning;
  std::span<const TakenOption> takes;
  /// Also these where it measures, too (explain --measure).
  std::span<const TakenOption> takes_measured = {};
};

std::span<const Subcommand> subcommands();

/// For the help of all: its meaning.
std::string description(const Subcommand& subcommand);

/// Its own help: how it is used, and the options of `app` that it takes.
std::string help(const CLI::App& app, const Subcommand& subcommand);

/// Whether `app` was given nothing but what `subcommand` takes.
Status check_taken(const CLI::App& app, const Subcommand& subcommand, bool measured);

}  // namespace ccoll::bench
