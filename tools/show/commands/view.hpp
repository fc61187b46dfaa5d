// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The presentation of a picture: the options and behaviour of every command that shows one.

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

/// Checks that the request is not too large; call it before making a picture.
Status check_view(const ViewOptions& options, const Problem& problem);

/// An interactive screen in a terminal, else text; status kWrong if the verifier objects.
Result<Output> view(const Picture& picture, const ViewOptions& options);

}  // namespace ccoll::show
