// SPDX-License-Identifier: Apache-2.0
#include "show/commands/width.hpp"

#include <CLI/CLI.hpp>

#include "bench/command/columns.hpp"

namespace ccoll::show {

void add_width_option(CLI::App& app, std::optional<std::size_t>& width) {
  app.add_option("--width", width, "columns of the text (default: the terminal's, or 80)")
      ->check(CLI::Range(40, 1000));
}

std::size_t columns_of(const std::optional<std::size_t>& width) {
  return width.value_or(bench::output_columns());
}

}  // namespace ccoll::show
