// SPDX-License-Identifier: Apache-2.0

/// Invalid usage of each command is refused with the given and the expected values.

#include <filesystem>

#include "said.hpp"

namespace ccoll::show::test {
namespace {

using Catch::Contains;
using Words = std::vector<std::string>;

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The commands that take an operation, in their shortest form.
const std::vector<Words> kCommands = {
    {"steps", "all_reduce", "--all"},
    {"call", "all_reduce"},
    {"list", "all_reduce"},
    {"verify", "all_reduce"},
    {"simulate", "all_reduce", "-b", "8"},
    {"page", "all_reduce", "-o", "/dev/null"},
    {"compare", "ring", "tree"},
};

TEST_CASE("cc-show: a number of ranks that cannot be is refused by every command", "[show]") {
  for (const Words& command : kCommands) {
    for (const std::string ranks : {"0", "-1", "1000000000", "four", "1.5"}) {
      CAPTURE(command, ranks);
      CHECK_THAT(refused(with(command, {"-n", ranks})), Contains(ranks) && Contains("1 to "));
    }
  }
}

TEST_CASE("cc-show call --groups: a comma without a rank is refused", "[show]") {
  for (const std::string groups : {"0,,1", ",0,1", "0,1,", "0/1,"}) {
    CAPTURE(groups);
    CHECK_THAT(refused({"call", "all_reduce", "-n", "4", "--groups", groups}),
               Contains(groups) && Contains("expected groups like 0,1/2,3"));
  }
}

TEST_CASE("cc-show: an empty path is refused and named", "[show]") {
  const std::pair<std::string, Words> paths[] = {
      {"FILE", {"run", ""}},
      {"DIR", {"trace", ""}},
      {"--perfetto", {"trace", "/nonexistent", "-o", ""}},
      {"--page", {"trace", "/nonexistent", "--page", ""}},
      {"", {"page", "all_reduce", "-o", ""}},
      {"", {"compare", "ring", "tree", "-o", ""}},
      {"", {"simulate", "all_reduce", "-b", "8", "-o", ""}},
  };
  for (const auto& [name, words] : paths) {
    CAPTURE(words);
    CHECK_THAT(refused(words), Contains(name) && Contains("expected the name of a file"));
  }
}

TEST_CASE("cc-show: one rank and no element are an example like any other", "[show]") {
  for (const Words& command : kCommands) {
    CAPTURE(command);
    CHECK_FALSE(said(with(command, {"-n", "1"})).empty());
  }
  for (const std::string command : {"steps", "call", "list"})
    CHECK_FALSE(said({command, "all_reduce", "--count", "0"}).empty());
}

TEST_CASE("cc-show: numbers that cannot be are refused with the range", "[show]") {
  for (const std::string command : {"steps", "call", "list"}) {
    for (const std::string count : {"-1", "1e9", "99999999999999999999"}) {
      CAPTURE(command, count);
      CHECK_THAT(refused({command, "all_reduce", "--count", count}),
                 Contains(count) && Contains("0 to "));
    }
  }
  CHECK_THAT(refused({"steps", "broadcast", "--root", "-1"}), Contains("-1") && Contains("0 to"));
  CHECK_THAT(refused({"steps", "broadcast", "--root", "4"}), Contains("expected 0 to 3"));
  CHECK_THAT(refused({"simulate", "broadcast", "-n", "8", "--root", "8"}),
             Contains("expected 0 to 7"));
  CHECK_THAT(refused({"steps", "all_reduce", "--step", "-1"}),
             Contains("--step") && Contains("-1"));
  CHECK(refused({"steps", "all_reduce", "--rank", "x"}) ==
        "--rank: Value x not in range 0 to 4294967295");
  CHECK_THAT(refused({"trace", "/tmp", "--call", "x"}),
             Contains("--call: Value x not in range 0 to "));
  CHECK_THAT(refused({"steps", "all_reduce", "--rank", "-1"}),
             Contains("--rank") && Contains("-1"));
  for (const std::string number : {"nan", "-1", "inf", "x"}) {
    CHECK_THAT(refused({"compare", "ring", "tree", "--latency", number}),
               Contains("--latency") && Contains("'" + number + "'"));
    CHECK_THAT(refused({"compare", "ring", "tree", "--bandwidth", number}),
               Contains("--bandwidth") && Contains("'" + number + "'"));
  }
}

TEST_CASE("cc-show: a root is refused for an operation that has none", "[show]") {
  for (const Words& command : kCommands) {
    if (command.front() == "verify") continue;  // it tries every root
    CAPTURE(command);
    CHECK_THAT(refused(with(command, {"--root", "0"})), Contains("root 0: all_reduce has no root"));
  }
  CHECK(refused({"call", "all_gather,all_reduce", "--root", "1"}) ==
        "--root 1: all_gather or all_reduce has no root");
  CHECK_FALSE(said({"call", "all_reduce,broadcast", "--root", "1"}).empty());
}

TEST_CASE("cc-show: a page that cannot be written is refused by name, and nothing is left",
          "[show]") {
  for (const Words& command : {Words{"page", "all_reduce"}, Words{"compare", "ring", "tree"},
                               Words{"simulate", "all_reduce", "-n", "8", "-b", "8"}}) {
    CAPTURE(command);
    for (const std::string path : {"/dev/full", "/", "/nowhere/page.html", "/proc/page.html"})
      CHECK_THAT(refused(with(command, {"-o", path})), Contains("cannot write " + path + ": "));
    CHECK_THAT(refused(with(command, {"-o", ""})), Contains("expected the name of a file"));
  }
}

TEST_CASE("cc-show: a file that is none of ours is refused with line or reason", "[show]") {
  CHECK_THAT(refused({"simulate", "all_reduce", "--net", "/dev/zero"}),
             Contains("/dev/zero: it is longer than 1M bytes"));
  CHECK_THAT(refused({"simulate", "all_reduce", "--net", "/dev/null"}),
             Contains("/dev/null: it is empty"));
  CHECK_THAT(refused({"simulate", "all_reduce", "--net", "/"}), Contains("Is a directory"));
  // A program is not a schedule, a network or a list of numbers.
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  CHECK_THAT(refused({"run", program}), Contains(program));
  CHECK_THAT(refused({"simulate", "all_reduce", "--net", program}), Contains(program));
  CHECK_THAT(refused({"call", "all_reduce", "--in", program}), Contains(program));
}

}  // namespace
}  // namespace ccoll::show::test
