// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What is wrong with a JSON text, for people who have never heard of the library that reads it.

#include <nlohmann/json.hpp>
#include <string>

namespace ccoll {

/// What `error` found in a text of so many bytes: "no JSON from byte 17 on", "key 'rows' not
/// found".
std::string what_is_wrong(const nlohmann::json::exception& error, std::size_t text_bytes);

}  // namespace ccoll
