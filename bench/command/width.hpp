// SPDX-License-Identifier: Apache-2.0
#pragma once

/// `--width`, an option of every command that prints text.

#include <cstddef>
#include <optional>

namespace CLI {
class App;
}

namespace ccoll::bench {

void add_width_option(CLI::App& app, std::optional<std::size_t>& width);

/// The columns for text: the requested number, else the terminal's.
std::size_t columns_of(const std::optional<std::size_t>& width);

/// The same for sentences, which scripts search: without a terminal they stay whole.
std::size_t columns_of_sentences(const std::optional<std::size_t>& width);

}  // namespace ccoll::bench
