// SPDX-License-Identifier: Apache-2.0

/// The output of `cc-show steps`, for review: UPDATE_GOLDEN=1 writes what differs.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "algorithms/algorithms.hpp"
#include "said.hpp"
#include "show/text/labels.hpp"
#include "show/text/palette.hpp"

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
      CHECK(longest_line(output->text) <= 80);
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
    const std::string one = said({"steps", "all_reduce", "-a", "ring", "--step", step});
    const std::string screen = one.substr(
        one.find("\n\nround") != one.npos ? one.find("\n\nround") : one.find("\n\nbefore"));
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
  CHECK_THAT(with({}), Contains("       60      64      68      72\n"));
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

TEST_CASE("cc-show steps: blocks have letters and ranks have numbers", "[show][unit]") {
  CHECK(block_name(0) == "A");
  CHECK(block_name(25) == "Z");
  CHECK(block_name(26) == "AA");
  CHECK(block_name(26 + 26 * 26) == "AAA");
  CHECK(blocks_text({1}) == "B");
  CHECK(blocks_text({0, 1, 2, 4}) == "A-C,E");
  const std::string text = said({"steps", "all_reduce", "-a", "ring", "--step", "2"});
  CHECK_THAT(text, Contains("block A block B block C block D sent        received"));
  CHECK_THAT(text, Contains("C -> rank 1 B += from rank 3"));
  // No digit in it can be mistaken for a rank.
  CHECK_THAT(text, !Contains("block 0") && !Contains("b2"));
  CHECK_THAT(said({"steps", "all_gather", "-a", "ring", "--step", "1"}),
             Contains("A -> rank 1") && Contains("D = from rank 3"));
}

TEST_CASE("cc-show steps: on a narrow screen contributions and blocks stay longest",
          "[show][unit]") {
  const auto at = [](const std::string& ranks, const std::string& width) {
    std::string text =
        said({"steps", "all_reduce", "-a", "ring", "-n", ranks, "--step", "2", "--width", width});
    CHECK(longest_line(text) <= std::stoul(width));
    return text;
  };
  const std::string wide = at("4", "100");
  CHECK_THAT(wide, Contains("block A  block B") && Contains("msgs  elems"));
  for (const char* const width : {"80", "60", "52"}) {
    CAPTURE(width);
    CHECK_THAT(at("4", width), Contains("0+2+3 <"));
  }
  CHECK_THAT(at("4", "60"), Contains("C -> 1 B += from 3") && !Contains("msgs"));
  CHECK_THAT(at("4", "52"), !Contains("sent   received") && Contains("No room for what each rank"));
  // The diagonal of a ring of eight is shown whole.
  CHECK_THAT(at("8", "80"), !Contains("Shown are") && Contains("3/8 <"));
}

TEST_CASE("cc-show steps: the title of every screen says whether the schedule is right",
          "[show][unit]") {
  CHECK_THAT(said({"steps", "all_reduce", "-a", "ring", "--step", "1"}),
             Contains("all_reduce by ring, 4 ranks, 4 elements: proven\n"));
  CHECK_THAT(said({"steps", "all_reduce", "-a", "ring", "--step", "0", "--break", "wait"}),
             Contains("4 elements: WRONG (deadlock)\n"));
}

TEST_CASE("cc-show steps: a round of a few messages says who sends what to whom", "[show][unit]") {
  CHECK_THAT(said({"steps", "all_reduce", "-a", "double_tree", "-n", "7", "--step", "3"}),
             Contains("Rank 4 sends block A to rank 0, rank 5 sends block B to rank 1."));
  CHECK_THAT(said({"steps", "all_reduce", "-a", "root_collects", "--step", "1"}),
             Contains("Ranks 1-3 send block A to rank 0."));
}

TEST_CASE("cc-show steps: numbers stand apart, however large they are", "[show][unit]") {
  const std::string text = said({"steps", "all_reduce", "-a", "recursive_doubling", "-c",
                                 "1000000000", "--step", "2", "--width", "100"});
  CHECK_THAT(text, Contains("     2  2,000,000,000\n"));
  CHECK_THAT(text, Contains("2,000,000,000 of 2,000,000,000 elements"));
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(1234567890) == "1,234,567,890");
}

TEST_CASE("palette: every tone is legible, on a white terminal and on a black one",
          "[show][unit]") {
  const auto channel = [](int level) {
    const double share = level / 255.0;
    return share <= 0.03928 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4);
  };
  // These are xterm's 216 colours and 24 greys.
  const auto luminance = [&](int number) {
    REQUIRE((number >= 16 && number <= 255));
    const auto level = [](int step) { return step == 0 ? 0 : 55 + 40 * step; };
    const int grey = 8 + 10 * (number - 232);
    const int cube = number - 16;
    const int red = number >= 232 ? grey : level(cube / 36);
    const int green = number >= 232 ? grey : level(cube / 6 % 6);
    const int blue = number >= 232 ? grey : level(cube % 6);
    return 0.2126 * channel(red) + 0.7152 * channel(green) + 0.0722 * channel(blue);
  };
  std::vector<Tone> tones(kBlockTones.begin(), kBlockTones.end());
  tones.insert(tones.end(), {kSending, kCopied, kCombined, kComplete, kFault});
  for (const Tone& tone : tones) {
    // Each has its own background, so the terminal's does not matter.
    const double text = luminance(tone.text), background = luminance(tone.background);
    CAPTURE(tone.background, tone.text);
    CHECK((std::max(text, background) + 0.05) / (std::min(text, background) + 0.05) >= 4.5);
  }
  CHECK(painted("A", kCombined) == "\x1b[48;5;214;38;5;16mA\x1b[0m");
}

TEST_CASE("cc-show steps: a rank's program names the rounds of its steps", "[show][unit]") {
  const std::string text = said({"steps", "all_reduce", "-a", "ring", "--rank", "1"});
  CHECK_THAT(
      text, Contains("receive-reduce-store-send  3         4      recv 0 + input[1] finish ->\n") &&
                Contains(" output[1], send 2\n") && !Contains("lend"));
  CHECK_THAT(text, Contains("send                       -         1      input[0] -> send 2"));
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
  CHECK(said({"steps", "all_reduce", "-a", "ring", "--follow", "block:B"}) == text);
  CHECK_THAT(text, Contains("the way of block B\n"));
  // The blocks of an all_to_all that are meant for one rank.
  const std::string blocks =
      said({"steps", "all_to_all", "-a", "bruck", "-n", "4", "--follow", "block:1"});
  for (const std::string label : {"0>1", "2>1", "3>1"}) CHECK_THAT(blocks, Contains(label));
  CHECK_THAT(blocks, !Contains(">2") && !Contains(">3"));
}

TEST_CASE("cc-show steps: a rank is followed through all rounds", "[show][unit]") {
  const std::string text =
      said({"steps", "all_reduce", "-a", "ring", "--follow", "rank:1", "--width", "100"});
  CHECK_THAT(text, Contains("round 2  1        1        0+1+3 <  0+1 >    D -> rank 2"));
  CHECK_THAT(text, !Contains("\nrank 2 "));
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
  for (const std::string follow : {"rank:4", "rank:x", "rank:"}) {
    CHECK_THAT(refused({"steps", "all_reduce", "-a", "ring", "--follow", follow}),
               Contains("from 0 to 3"));
  }
  for (const std::string follow : {"block:4", "block:E", "block:"}) {
    CHECK_THAT(refused({"steps", "all_reduce", "-a", "ring", "--follow", follow}),
               Contains("from A to D, or 0 to 3"));
  }
  CHECK_THAT(refused({"steps", "all_reduce", "--follow", "3"}),
             Contains("expected a block, like block:B, or a rank, like rank:3"));
  CHECK_THAT(refused({"steps", "all_reduce", "--rank", "4"}), Contains("a rank from 0 to 3"));
  CHECK_THAT(refused({"steps"}), Contains("no operation given"));
}

}  // namespace
}  // namespace ccoll::show::test
