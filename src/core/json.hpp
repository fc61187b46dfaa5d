// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Describes errors in a JSON text to people who do not know the library that reads it.

#include <nlohmann/json.hpp>
#include <string>

namespace ccoll {

/// The text for an `error` found in a text of `text_bytes` bytes: "no JSON from byte 17 on", "key
/// 'rows' not found".
std::string what_is_wrong(const nlohmann::json::exception& error, std::size_t text_bytes);

}  // namespace ccoll
