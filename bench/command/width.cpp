// SPDX-License-Identifier: Apache-2.0
#include "bench/command/width.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>

#include "bench/command/columns.hpp"

namespace ccoll::bench {

void add_width_option(CLI::App& app, std::optional<std::size_t>& width) {
  app.add_option("--width", width, "columns of the text (default: the terminal's, or 80)")
      ->check(CLI::Range(40, 1000));
}

std::size_t columns_of(const std::optional<std::size_t>& width) {
  return width.value_or(output_columns());
}

std::size_t columns_of_sentences(const std::optional<std::size_t>& width) {
  return width || ::isatty(STDOUT_FILENO) == 1 ? columns_of(width) : SIZE_MAX;
}

}  // namespace ccoll::bench
