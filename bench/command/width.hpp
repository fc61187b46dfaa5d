// SPDX-License-Identifier: Apache-2.0
#pragma once

/// `--width`, which every command that prints text takes.

#include <cstddef>
#include <optional>

namespace CLI {
class App;
}

namespace ccoll::bench {

void add_width_option(CLI::App& app, std::optional<std::size_t>& width);

/// The columns that text may take: what was asked for, else those of the terminal.
std::size_t columns_of(const std::optional<std::size_t>& width);

/// The same for sentences, which scripts search: where they go to no terminal they stay whole.
std::size_t columns_of_sentences(const std::optional<std::size_t>& width);

}  // namespace ccoll::bench
