// SPDX-License-Identifier: Apache-2.0
#pragma once

/// `cc-show page OP`: an algorithm at work as one HTML file that needs no network. The file's
/// script and style lie in page/ and are the same for every run; what it shows is the picture's
/// JSON.

#include <nlohmann/json.hpp>
#include <string>

#include "show/command.hpp"

namespace ccoll::show {

Action add_page(CLI::App& app);

/// A document for the page:
///
///     {"runs": [RUN], "compare": {"unit": "µs"}}     // "compare" only where runs share one clock
///
/// RUN is a picture's JSON (rounds_json.hpp).
std::string page_of(const std::string& title, const nlohmann::ordered_json& document);

}  // namespace ccoll::show
