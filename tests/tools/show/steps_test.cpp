// SPDX-License-Identifier: Apache-2.0

/// What `cc-show steps` prints, to be read in review: UPDATE_GOLDEN=1 writes what differs.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "algorithms/algorithms.hpp"
#include "said.hpp"

namespace ccoll::show::test {
namespace {

using Catch::Contains;

std::string name_of(std::string_view word) { return std::string(word); }

std::size_t longest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t longest = 0;
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

TEST_CASE("cc-show steps: the screens are those of the golden files", "[show][golden]") {
  struct Golden {
    std::string file;
    std::vector<std::string> words;
  };
  const Golden kGolden[] = {
      {"ring_4", {"steps", "all_reduce", "--algo", "ring", "-n", "4", "--all"}},
      {"double_tree_7", {"steps", "all_reduce", "--algo", "double_tree", "-n", "7", "--all"}},
      {"pairwise_4", {"steps", "all_to_all", "--algo", "pairwise", "-n", "4", "--all"}},
  };
  for (const Golden& golden : kGolden) {
    const std::string path = fmt::format("{}/{}.txt", CCOLL_GOLDEN_DIR, golden.file);
    const std::string text = said(golden.words);
    if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
    std::stringstream file;
    file << std::ifstream(path).rdbuf();
    INFO(path << " (UPDATE_GOLDEN=1 writes it anew)");
    CHECK(file.str() == text);
  }
}

TEST_CASE("cc-show steps: every algorithm is drawn within the width, in ASCII, and is proven",
          "[show][property]") {
  for (const CatalogueEntry& entry : catalogue()) {
    for (const Rank size : {1, 2, 5, 8, 17}) {
      const auto output =
          answer({"steps", name_of(to_string(entry.kind)), "--algo",
                  name_of(to_string(entry.algorithm)), "-n", fmt::format("{}", size), "--all"});
      REQUIRE(output);
      INFO(output->text);
      CHECK(output->status == 0);
      CHECK(longest_line(output->text) <= 100);
      CHECK(std::ranges::all_of(output->text,
                                [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
      CHECK_THAT(output->text, Contains("proven: "));
      CHECK_THAT(output->text, Contains(": so it is\n"));
    }
  }
}

TEST_CASE("cc-show steps: one round of all", "[show][unit]") {
  const std::string all = said({"steps", "all_reduce", "-a", "ring", "--all"});
  for (const std::string step : {"0", "1", "6"}) {
    const std::string one =
        said({"steps", "all_reduce", "-a", "ring", "--step", step, "--width", "100"});
    const std::string screen = one.substr(one.find("\n\n"));
    CHECK_THAT(all, Contains(screen));
  }
  CHECK_THAT(refused({"steps", "all_reduce", "-a", "ring", "--step", "7"}),
             Contains("--step 7: expected a round from 0 to 6"));
}

TEST_CASE("cc-show steps: numbers are shown where asked for, or where they fit", "[show][unit]") {
  const std::vector<std::string> words = {"steps", "all_reduce", "-a", "ring", "--all"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return said(more);
  };
  CHECK_THAT(with({}), Contains("         60       64       68       72\n"));
  CHECK_THAT(with({"--no-values"}), !Contains("60"));
  CHECK_THAT(with({"-c", "40"}), !Contains("below it"));
  CHECK_THAT(with({"-c", "40", "--values"}), Contains("60 64 68 72 .."));
}

TEST_CASE("cc-show steps: what has no place is left out, and that is said", "[show][unit]") {
  const std::string text =
      said({"steps", "all_reduce", "-a", "ring", "-n", "20", "--step", "1", "--width", "100"});
  CHECK_THAT(text, Contains("Shown are 16 of 20 ranks"));
  CHECK_THAT(text, Contains("of 20 blocks"));
  CHECK_THAT(text, Contains("2/20 <"));
  CHECK_THAT(text, Contains("...\nrank 12"));
  CHECK_THAT(
      said({"steps", "all_reduce", "-a", "ring", "-n", "8", "--step", "1", "--width", "100"}),
      !Contains("Shown are"));
}

TEST_CASE("cc-show steps: a rank's program names the rounds of its steps", "[show][unit]") {
  const std::string text = said({"steps", "all_reduce", "-a", "ring", "--rank", "1"});
  CHECK_THAT(text,
             Contains("receive-reduce-store-send   3         4       recv 0 + input[1] finish "
                      "-> output[1], send 2"));
  CHECK_THAT(text, Contains("send                        -         1       input[0] -> send 2"));
  for (const CatalogueEntry& entry : catalogue()) {
    const std::string any = said({"steps", name_of(to_string(entry.kind)), "-a",
                                  name_of(to_string(entry.algorithm)), "-n", "5", "--rank", "4"});
    CHECK_THAT(any, Contains("lane 0\n") && Contains("receive"));
  }
}

TEST_CASE("cc-show steps: a block is followed from rank to rank", "[show][unit]") {
  const std::string text = said({"steps", "all_reduce", "-a", "ring", "--follow", "block:1"});
  CHECK_THAT(text, Contains("round 2    rank 3 -> rank 0      2+3 [52], combined: 0+2+3 [53]\n"));
  CHECK_THAT(text, Contains("round 6    rank 3 -> rank 0      all [64], kept\n"));
  CHECK(std::ranges::count(text, '\n') == 2 + 6);
  // Of an all_to_all the blocks that are meant for a rank.
  const std::string blocks =
      said({"steps", "all_to_all", "-a", "bruck", "-n", "4", "--follow", "block:1"});
  for (const std::string label : {"0>1", "2>1", "3>1"}) CHECK_THAT(blocks, Contains(label));
  CHECK_THAT(blocks, !Contains(">2") && !Contains(">3"));
}

TEST_CASE("cc-show steps: a rank is followed through all rounds", "[show][unit]") {
  const std::string text =
      said({"steps", "all_reduce", "-a", "ring", "--follow", "rank:1", "--width", "100"});
  CHECK_THAT(text, Contains("round 2  1        1        0+1+3 <  0+1 >    b3 -> 2"));
  CHECK_THAT(text, !Contains("rank 2  "));
}

TEST_CASE("cc-show steps: wrong usage is told with what was expected", "[show][unit]") {
  CHECK_THAT(refused({"steps", "all_reduce", "--algo", "rng"}), Contains("did you mean ring?"));
  CHECK_THAT(refused({"steps", "all_reduce", "--algo", "bruck"}),
             Contains("no all_reduce algorithm 'bruck'"));
  CHECK_THAT(refused({"steps", "all_reduce", "-n", "257"}), Contains("1 to 256"));
  CHECK_THAT(refused({"steps", "all_reduce", "-n", "65", "--format", "json"}),
             Contains("expected 64 ranks at the most"));
  CHECK_THAT(refused({"steps", "all_reduce", "--dtype", "float31"}), Contains("float32"));
  CHECK_THAT(refused({"steps", "all_reduce", "--op", "avg", "--dtype", "bool"}),
             Contains("not defined"));
  for (const std::string follow : {"rank:4", "block:4", "rank:x", "rank:"}) {
    CHECK_THAT(refused({"steps", "all_reduce", "-a", "ring", "--follow", follow}),
               Contains("from 0 to 3"));
  }
  CHECK_THAT(refused({"steps", "all_reduce", "--follow", "3"}),
             Contains("expected block:B or rank:R"));
  CHECK_THAT(refused({"steps", "all_reduce", "--rank", "4"}), Contains("a rank from 0 to 3"));
  CHECK_THAT(refused({"steps"}), Contains("no operation given"));
}

}  // namespace
}  // namespace ccoll::show::test
