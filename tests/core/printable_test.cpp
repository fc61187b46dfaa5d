// SPDX-License-Identifier: Apache-2.0
#include "core/printable.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

namespace ccoll {
namespace {

std::string shown(std::string_view text) { return printable(text, 1000).text; }

}  // namespace

TEST_CASE("printable: what is printable UTF-8 is shown as it is, all else escaped",
          "[core][unit]") {
  for (const auto* plain : {"", "gradients", "规约 × ü \xf0\x9f\x98\x80", "a \"b\" \\ c"})
    CHECK(shown(plain) == plain);
  CHECK(shown("a\nb\tc\x1b[31m\x7f") == "a\\nb\\tc\\x1b[31m\\x7f");
  // A terminal command in two bytes.
  CHECK(shown("\xc2\x9b"
              "2J") == "\\xc2\\x9b2J");
  // Half a character, an overlong one, half of a pair, one beyond the last, and a lone byte.
  CHECK(shown("\xe8\xa7") == "\\xe8\\xa7");
  CHECK(shown("\xc0\x8a") == "\\xc0\\x8a");
  CHECK(shown("\xed\xa0\x80") == "\\xed\\xa0\\x80");
  CHECK(shown("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");
  CHECK(shown("\xff!") == "\\xff!");
}

TEST_CASE(
    "printable: what is shown is bounded, has no control character and no part of a character",
    "[core][unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 20'000; round++) {
    std::string text;
    const auto pieces = random() % 12;
    for (std::size_t i = 0; i < pieces; i++) {
      if (random() % 2 == 0)
        text += static_cast<char>(random());
      else
        text += std::vector<std::string>{"ä", "规", "\xf0\x9f\x98\x80", "x", "\n"}[random() % 5];
    }
    const auto most = random() % 20;
    const auto got = printable(text, most);
    const auto all = printable(text, SIZE_MAX);
    CAPTURE(text, most, got.text);
    REQUIRE(all.whole);
    REQUIRE(got.text.size() <= most);
    REQUIRE(all.text.starts_with(got.text));
    REQUIRE(got.whole == (got.text == all.text));
    // Nothing is left to escape.
    REQUIRE(printable(got.text, SIZE_MAX).text == got.text);
    REQUIRE(std::ranges::none_of(got.text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }));
  }
}

}  // namespace ccoll
