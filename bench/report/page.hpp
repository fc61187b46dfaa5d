// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The page of --html: charts of time and bus bandwidth by size and a table of the same figures, in
/// one file that needs no network.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace ccoll::bench {

/// `document` is the output of --json. The page is XML too, so that any parser can check it.
std::string page(const nlohmann::json& document);

}  // namespace ccoll::bench
