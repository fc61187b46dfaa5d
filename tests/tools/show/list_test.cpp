// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "algorithms/algorithms.hpp"
#include "said.hpp"
#include "show/text/labels.hpp"

namespace ccoll::show::test {
namespace {

using Catch::Contains;

/// The words of the line that begins with `first`; the line must exist.
std::vector<std::string> line_of(const std::string& text, const std::string& first) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::vector<std::string> found;
    for (std::string word; words >> word;) found.push_back(word);
    if (!found.empty() && found.front() == first) return found;
  }
  FAIL("no line begins with " << first << ":\n" << text);
  return {};
}

TEST_CASE("cc-show: alone it names every command and operation, and fits a small terminal",
          "[show][unit]") {
  const std::string text = said({});
  const std::string all = said({"list"});
  for (const Command& command : commands()) CHECK_THAT(text, Contains(std::string(command.name)));
  for (const CatalogueEntry& entry : catalogue()) {
    CHECK_THAT(text, Contains(std::string(to_string(entry.kind))));
    CHECK_THAT(all, Contains(std::string(to_string(entry.kind))));
    CHECK_THAT(all, Contains(std::string(to_string(entry.algorithm))));
  }
  // A prompt follows it.
  CHECK(std::ranges::count(text, '\n') < 24);
  CHECK_THAT(text, Contains("docs/learn/README.md") && Contains("docs/learn/gallery/index.html"));
  CHECK_THAT(all, Contains("cc-show list all_reduce"));
}

TEST_CASE("cc-show: the commands to type first work", "[show][unit]") {
  std::istringstream lines(said({}));
  std::size_t tried = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  cc-show ")) continue;
    const std::size_t begin = line.find("cc-show ") + 8;
    std::istringstream rest(line.substr(begin, line.find("  ", begin) - begin));
    std::vector<std::string> words;
    for (std::string word; rest >> word;) words.push_back(word);
    CAPTURE(line);
    // Avoids the interactive form if the tests run in a terminal.
    if (words.front() == "steps") words.emplace_back("--all");
    const auto output = answer(words);
    REQUIRE(output);
    CHECK(output->status == 0);
    CHECK(output->text.size() > 100);
    ++tried;
  }
  CHECK(tried == 3);
}

TEST_CASE("cc-show list: the figures are the formulas' and each source is named", "[show][unit]") {
  for (const CatalogueEntry& entry : catalogue()) {
    for (const Rank n : {2, 7, 16}) {
      const std::string text = said({"list", std::string(to_string(entry.kind)), "-n",
                                     fmt::format("{}", n), "--count", "1000", "--width", "200"});
      CAPTURE(text);
      Problem problem;
      problem.kind = entry.kind;
      problem.size = n;
      problem.count = entry.kind == Kind::barrier ? 1 : 1000;
      const Theory theory = entry.theory(problem);
      std::vector<std::string> words = line_of(text, std::string(to_string(entry.algorithm)));
      words.erase(std::remove(words.begin(), words.end(), "*"), words.end());
      REQUIRE(words.size() == 5);
      CHECK(words[1] == grouped(theory.depth));
      CHECK(words[2] == grouped(theory.busiest.messages));
      CHECK(words[3] == grouped(theory.busiest.elems_sent));
      CHECK(words[4] == grouped(theory.busiest.elems_reduced));
      CHECK_THAT(text, Contains(std::string(entry.source)));
    }
  }
}

TEST_CASE("cc-show list: the depth is no number of rounds, and is not called so", "[show][unit]") {
  const std::string text = said({"list", "all_to_all"});
  CHECK_THAT(text, Contains("  depth  messages") && !Contains("rounds"));
  CHECK(line_of(text, "pairwise")[1] == "1");
  CHECK_THAT(said({"steps", "all_to_all", "-a", "pairwise", "--step", "1"}),
             Contains("round 1 of 3"));
}

TEST_CASE("cc-show: every command says how it is used", "[show][unit]") {
  for (const Command& command : commands()) {
    std::string text = said({std::string(command.name), "--help"});
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      CHECK(line.size() <= 80 + 2);  // bytes; an ellipsis has three
    // Undoes the line breaks.
    std::ranges::replace(text, '\n', ' ');
    CHECK_THAT(text, Contains("Usage: cc-show " + std::string(command.name)));
    CHECK_THAT(text, Contains(std::string(command.meaning)));
  }
  CHECK_THAT(said({"--version"}), Contains("cc-show "));
}

TEST_CASE("cc-show: operations are understood as others spell them", "[show][unit]") {
  CHECK(said({"list", "allreduce"}) == said({"list", "all_reduce"}));
  CHECK(said({"list", "MPI_Bcast"}) == said({"list", "broadcast"}));
}

TEST_CASE("cc-show: wrong usage is told with what was expected", "[show][unit]") {
  CHECK_THAT(refused({"lst"}), Contains("no command 'lst': did you mean list?"));
  CHECK_THAT(refused({"list", "al_reduce"}), Contains("did you mean all_reduce?"));
  CHECK_THAT(refused({"list", "all_gather_v"}), Contains("there are", Catch::CaseSensitive::No));
  CHECK_THAT(refused({"list", "all_reduce", "--hosts", "4,5"}),
             Contains("that is 9 ranks, but -n is 8"));
  CHECK_THAT(refused({"list", "all_reduce", "--hosts", "4,x"}), Contains("like 4,4"));
  CHECK_THAT(refused({"list", "broadcast", "--root", "8"}), Contains("expected 0 to 7"));
  CHECK_THAT(refused({"list", "all_reduce", "-n", "0"}),
             Contains("'0' is not a number of ranks: expected 1 to"));
  CHECK_THAT(
      refused({"page", "all_reduce", "-n", "64", "-o", "x.html"}),
      Contains("64 ranks are too many for cc-show page: expected 1 to 32; cc-show simulate"));
  CHECK_THAT(refused({"compare", "ring", "tree", "-n", "1000"}),
             Contains("1000 ranks are too many for cc-show compare: expected 1 to 32"));
  CHECK_THAT(refused({"list", "all_reduce", "--no-such"}), Contains("--no-such"));
}

}  // namespace
}  // namespace ccoll::show::test
