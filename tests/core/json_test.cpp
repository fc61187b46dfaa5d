// SPDX-License-Identifier: Apache-2.0
#include "core/json.hpp"

#include <catch2/catch.hpp>

namespace ccoll {
namespace {

std::string trouble_with(const std::string& text) {
  try {
    const auto rows = nlohmann::json::parse(text).at("rows").get<std::string>();
    return "none";
  } catch (const nlohmann::json::exception& error) {
    return what_is_wrong(error, text.size());
  }
}

}  // namespace

TEST_CASE("json: what is wrong with a text is said by its byte, in no library's words",
          "[core][unit]") {
  CHECK(trouble_with("") == "it is empty");
  CHECK(trouble_with("garbage") == "it is not valid JSON from byte 1 on");
  CHECK(trouble_with(R"({"rows": x})") == "it is not valid JSON from byte 10 on");
  CHECK(trouble_with(R"({"rows": "x"}})") == "it is not valid JSON from byte 14 on");
  CHECK(trouble_with("{\"rows\": \"\xff\"}") == "it is not valid JSON from byte 11 on");
  CHECK(trouble_with(R"({"rows": "x")") == "it ends unexpectedly after byte 12");
  CHECK(trouble_with(R"({"rows": "x)") == "it ends unexpectedly after byte 11");
  CHECK(trouble_with("{}") == "key 'rows' not found");
  CHECK(trouble_with(R"({"rows": 1})") == "type must be string, but is number");
  CHECK(trouble_with(R"({"rows": "x"})") == "none");
}

}  // namespace ccoll
