// SPDX-License-Identifier: Apache-2.0
#pragma once

/// `cc-show page OP`: an algorithm at work as one HTML file that needs no network. The script and
/// style are in page/ and the same for every run; the shown data is the picture's JSON.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "show/commands/command.hpp"
#include "show/model/picture.hpp"

namespace ccoll::show {

Action add_page(CLI::App& app);

/// Larger pictures are too crowded to be read.
inline constexpr std::uint32_t kMostRanksOnPage = 32;

/// The page that shows a document:
///
///     {"runs": [RUN],
///      "compare": {"clock": "Simulated: …", "unit": "us", "curves": CURVES},
///      "measured": …}                 // of a traced call: trace_page.hpp
///
/// Without "compare" one run at a time is shown. With it all are, on one clock, and each round
/// except the first has an "end" on it.
std::string page_of(const std::string& title, const nlohmann::ordered_json& document);

/// CURVES is that of compare (curves.hpp).
///
/// A RUN: the picture's JSON (rounds_json.hpp) without the parts that pages do not show, and with
/// "lesson": {"takeaway", "formula", "questions": [[question, answer]]}, or null. A page of one run
/// at a time has "faults", the verifier's verdict if one step's message is lost, repeated or
/// swapped with the next: [{"rank", "lane", "step", "how", "what", "ok", "text"}].
nlohmann::ordered_json run_of(const Picture& picture);

/// Writes the page; returns a sentence about the file.
Result<std::string> write_page(const std::string& path, const std::string& title,
                               const nlohmann::ordered_json& document);

}  // namespace ccoll::show
