// SPDX-License-Identifier: Apache-2.0
#pragma once

/// `--width`, which every command that prints text takes.

#include <cstddef>
#include <optional>

namespace CLI {
class App;
}

namespace ccoll::show {

void add_width_option(CLI::App& app, std::optional<std::size_t>& width);

/// The columns that text may take: what was asked for, else those of the terminal.
std::size_t columns_of(const std::optional<std::size_t>& width);

}  // namespace ccoll::show
