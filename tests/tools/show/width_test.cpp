// SPDX-License-Identifier: Apache-2.0

/// The text of each command fits a terminal of 80 columns, or the requested width.

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>

#include "bench/command/columns.hpp"
#include "said.hpp"

namespace ccoll::show::test {
namespace {

using Catch::Contains;

/// The number of visible characters of UTF-8.
std::size_t seen(const std::string& line) {
  return static_cast<std::size_t>(std::ranges::count_if(
      line, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

void check_width(const std::string& text, std::size_t width) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line, width);
    CHECK(seen(line) <= width);
  }
}

TEST_CASE("cc-show: what it prints fits 80 columns, and the width that is asked for",
          "[show][property]") {
  const std::vector<std::vector<std::string>> kCommandLines = {
      {"list"},
      {"list", "all_reduce", "-n", "1000", "-c", "1000000000"},
      {"list", "barrier"},
      {"steps", "all_reduce", "-a", "two_level", "--hosts", "2,2", "--all"},
      {"steps", "all_to_all", "-a", "bruck", "-n", "8", "--all"},
      {"steps", "all_reduce", "-a", "double_tree", "-n", "7", "--rank", "3"},
      {"steps", "all_reduce", "-a", "recursive_doubling", "-n", "8", "--follow", "block:A"},
      {"call", "all_reduce", "-n", "40"},
      {"call", "all_to_all_v", "--splits", "2,2,1,1/3,2,2,2/2,1,1,1/2,2,2,1"},
      {"call", "all_gather", "-n", "30"},
      {"call", "all_gather", "-n", "50", "--rows", "3"},
      {"compare", "ring", "double_tree", "recursive_doubling", "one_shot", "two_shot"},
      {"verify", "-n", "2"},
      {"verify", "all_reduce", "-a", "ring", "--break", "tutorial"},
      {"simulate", "all_reduce", "-n", "8", "-b", "8..1G", "--algo", "ring,tree,leaders"},
      {"run", CCOLL_SOURCE_ROOT "/docs/learn/schedules/ring.schedule", "--execute"},
      {"run", CCOLL_SOURCE_ROOT "/docs/learn/schedules/broken_order.schedule", "--all"},
  };
  for (std::vector<std::string> words : kCommandLines) {
    CAPTURE(words);
    check_width(said(words), 80);
    words.insert(words.end(), {"--width", "60"});
    check_width(said(words), 60);
  }
}

TEST_CASE("cc-show call: what has no room is shortened, and that is said", "[show][unit]") {
  const std::string text = said({"call", "all_reduce", "-n", "40"});
  CHECK_THAT(text, Contains("rank 0   0 1 2 3 4 ") && Contains(" .. 39  7800 "));
  CHECK_THAT(text, Contains("--width N makes room, --json has all"));
  CHECK_THAT(said({"call", "all_reduce", "-n", "4"}), !Contains(".."));
  CHECK_THAT(said({"call", "all_reduce", "-n", "40", "--width", "1000"}), !Contains(".."));
}

TEST_CASE("cc-show simulate: sizes that have no room beside the others go below them",
          "[show][unit]") {
  const std::string text =
      said({"simulate", "all_reduce", "-n", "8", "-b", "8..1G", "--algo", "ring"});
  std::size_t heads = 0;
  for (std::size_t at = 0; (at = text.find("\n  algorithm ", at)) != text.npos; ++at) ++heads;
  CHECK(heads > 1);
  CHECK_THAT(text, Contains(" 8 ") && Contains("1G"));
}

TEST_CASE("text that is too long goes on below itself", "[show][unit]") {
  CHECK(bench::wrapped("one two three", 8) == "one two\nthree\n");
  CHECK(bench::wrapped("one two", 80, "# ") == "# one two\n");
  CHECK(bench::wrapped_beside("  head  ", "one two three", 16) ==
        "  head  one two\n        three\n");
  CHECK(bench::wrapped_beside("  head  ", "", 16) == "  head\n");
  CHECK(bench::wrapped_lines("  -n  how many ranks there are\n  -m  few\n", 24) ==
        "  -n  how many ranks\n      there are\n  -m  few\n");
}

TEST_CASE("a table's last column is broken, or goes below its row", "[show][unit]") {
  using Align = bench::TextTable::Align;
  bench::TextTable table({{"name", Align::left}, {"n"}, {"what", Align::left}});
  table.add({"ring", "14", "a b c d e f g h i j k l m n o p"});
  CHECK(table.text(80) == "  name   n  what\n  ring  14  a b c d e f g h i j k l m n o p\n");
  CHECK(table.text(40) ==
        "  name   n  what\n  ring  14  a b c d e f g h i j k l m n\n            o p\n");
  CHECK(
      table.text(20) ==
      "  name   n\n      what\n  ring  14\n      a b c d e f g\n      h i j k l m n\n      o p\n");
}

}  // namespace
}  // namespace ccoll::show::test
