// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How a picture is looked at: what every command that shows one takes and does.

#include <cstddef>
#include <optional>
#include <string>

#include "show/commands/command.hpp"
#include "show/model/picture.hpp"

namespace ccoll::show {

struct ViewOptions {
  std::string format = "text";
  bool all = false;
  std::optional<std::size_t> step;
  std::optional<Rank> rank;
  std::string follow;
  std::optional<std::size_t> width;
  std::optional<bool> values;
};

void add_view_options(CLI::App& app, ViewOptions& options);

/// Whether what is asked for is not too large; to be asked before a picture is made.
Status check_view(const ViewOptions& options, const Problem& problem);

/// In a terminal a screen to go through, else text; status kWrong where the verifier objects.
Result<Output> view(const Picture& picture, const ViewOptions& options);

}  // namespace ccoll::show
