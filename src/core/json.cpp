// SPDX-License-Identifier: Apache-2.0
#include "core/json.hpp"

#include <fmt/format.h>

#include <string_view>

namespace ccoll {

std::string what_is_wrong(const nlohmann::json::exception& error, std::size_t text_bytes) {
  if (const auto* parsing = dynamic_cast<const nlohmann::json::parse_error*>(&error)) {
    // The position counts from 1, and the end of the text counts as one more.
    if (text_bytes == 0) return "it is empty";
    if (parsing->byte > text_bytes)
      return fmt::format("it ends unexpectedly after byte {}", text_bytes);
    return fmt::format("it is not valid JSON from byte {} on", parsing->byte);
  }
  // "[json.exception.out_of_range.403] key 'rows' not found"
  const std::string_view text = error.what();
  const auto tag = text.find("] ");
  return std::string(tag == text.npos ? text : text.substr(tag + 2));
}

}  // namespace ccoll
