// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "algorithms/algorithms.hpp"
#include "said.hpp"
#include "show/model/breaking.hpp"
#include "show/text/explain.hpp"
#include "verify/verify.hpp"

namespace ccoll::show::test {
namespace {

using Catch::Contains;

/// The report on a schedule that must be wrong.
std::string said_of_wrong(std::vector<std::string> words) {
  // Uses long lines, so that texts can be found.
  words.insert(words.end(), {"--width", "300"});
  const auto output = answer(words);
  INFO((output ? std::string() : output.error().message));
  REQUIRE(output);
  CHECK(output->status == kWrong);
  CHECK_THAT(output->text, Contains("WRONG"));
  return output->text;
}

TEST_CASE("cc-show verify: every algorithm is proven, and it is said what was checked",
          "[show][property]") {
  const auto output = answer({"verify", "-n", "1..5"});
  REQUIRE(output);
  CHECK(output->status == 0);
  INFO(output->text);
  std::size_t proven = 0;
  for (std::size_t at = 0; (at = output->text.find("  proven\n", at)) != std::string::npos; ++at) {
    ++proven;
  }
  CHECK(proven == catalogue().size());
  for (const char* const word :
       {"exactly once", "same order", "waits for ever", "received", "same memory"}) {
    CHECK_THAT(output->text, Contains(word));
  }
}

TEST_CASE("cc-show verify: counts the contributions of the schedules that it looked at",
          "[show][unit]") {
  // Four ranks with one block each: 3 + 3 windows, none, one element, and three; for results with
  // four ranks' contributions on four ranks.
  const std::string text = said({"verify", "all_reduce", "--algo", "tree", "-n", "4"});
  const std::uint64_t expected = (3 + 3 + 0 + 1 + 1) * 4 * 4;
  CHECK_THAT(text, Contains("4 ranks\n") && Contains(fmt::format(" {} ", expected)));
  CHECK_THAT(text, !Contains("double_tree") && !Contains("broadcast"));
}

TEST_CASE("cc-show verify: of one schedule it tells the order in which it combines",
          "[show][unit]") {
  CHECK_THAT(said({"verify", "all_reduce", "--algo", "two_shot", "-n", "4"}),
             Contains("every block: 0+1+2+3\n"));
  CHECK_THAT(said({"verify", "reduce_scatter", "--algo", "ring", "-n", "3"}),
             Contains("block A: 0+(1+2)\n") && Contains("block B: 1+(0+2)\n"));
  CHECK_THAT(said({"verify", "all_gather", "--algo", "ring", "-n", "3"}), !Contains("block A"));
}

TEST_CASE("cc-show verify --break: a message that is missing stops who waits for it",
          "[show][unit]") {
  const std::string text = said_of_wrong({"verify", "all_reduce", "-a", "ring", "--break", "drop"});
  CHECK_THAT(text, Contains("rank 1 does not send what step 0"));
  CHECK_THAT(text, Contains("waits for 6 messages of rank 1 lane 0, which sends 5"));
  CHECK_THAT(text, Contains("rank 2 (lane 0, step 6) waits for a message from rank 1\n"));
  CHECK_THAT(text, Contains("rank 1 (lane 0) is at its end, and sends no more\n"));
}

TEST_CASE("cc-show verify --break: a cycle of ranks that wait is drawn", "[show][unit]") {
  const std::string text =
      said_of_wrong({"verify", "all_reduce", "-a", "ring", "-n", "3", "--break", "wait"});
  CHECK_THAT(text, Contains("rank 0 -> rank 2 -> rank 1 -> rank 0\n"));
  CHECK_THAT(text, Contains("rank 2 (lane 0, step 0) waits for a message from rank 1\n"));
}

TEST_CASE("cc-show verify --break: a message too many, or out of turn, spoils results",
          "[show][unit]") {
  const std::string twice =
      said_of_wrong({"verify", "all_reduce", "-a", "ring", "--break", "duplicate"});
  CHECK_THAT(twice, Contains("sends 7 messages"));
  CHECK_THAT(twice, Contains("rank 0, block B: its first element is 46, and should be 64"));
  const std::string swapped =
      said_of_wrong({"verify", "all_reduce", "-a", "ring", "--break", "reorder"});
  CHECK_THAT(swapped, Contains("combines block D window 0 with block A window 0"));
  CHECK_THAT(refused({"verify", "all_to_all", "-a", "pairwise", "--break", "reorder"}),
             Contains("nothing of that kind makes all_to_all by pairwise"));
}

TEST_CASE("cc-show verify --break: the tutorial's ring is wrong, which equal inputs hide",
          "[show][unit]") {
  const std::string text = said_of_wrong({"verify", "all_reduce", "--break", "tutorial"});
  CHECK_THAT(text, Contains("rank 0, block A: its first element is 68, and should be 60"));
  CHECK_THAT(text, Contains("all ones for example"));
  // 2(n-1) steps, in each of which ranks send in turn, unlike in our ring.
  CHECK_THAT(text, Contains("up to 23 others, in all_reduce by ring for 5."));
  CHECK_THAT(refused({"verify", "all_reduce", "-n", "2", "--break", "tutorial"}),
             Contains("3 ranks or more"));
  CHECK_THAT(refused({"verify", "broadcast", "--break", "tutorial"}),
             Contains("expected an all_reduce"));
}

TEST_CASE("breaking: whatever is broken is found wrong, and its picture says why",
          "[show][property]") {
  for (const CatalogueEntry& entry : catalogue()) {
    for (const Rank size : {2, 3, 6}) {
      Call call;
      call.operation = *operation_named(std::string(to_string(entry.kind)));
      call.problem.kind = entry.kind;
      call.problem.size = size;
      call.problem.count = entry.kind == Kind::barrier ? 1 : size;
      call.entry = &entry;
      std::size_t made = 0;
      for (const char* const how : {"drop", "duplicate", "reorder", "wait"}) {
        auto wrong = broken(call, how);
        if (!wrong) continue;
        ++made;
        const Picture picture = picture_of(call, std::move(*wrong));
        CAPTURE(call_text(call), how, picture.broken);
        CHECK_FALSE(picture.report.ok());
        CHECK_FALSE(explanation(picture, 100).empty());
        CHECK(picture.rounds.waits.empty() ==
              (picture.report.text().find("deadlock:") == std::string::npos));
      }
      CHECK(made >= 2);
    }
  }
}

TEST_CASE("cc-show steps --break: every form shows what is wrong", "[show][unit]") {
  const std::vector<std::string> words = {"steps", "all_reduce", "-a", "ring", "--break"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return said_of_wrong(more);
  };
  const std::string text = with({"drop", "--all"});
  CHECK_THAT(text, Contains("Broken on purpose: rank 1 does not send"));
  CHECK_THAT(text, Contains("B not taken from rank 1"));
  // A misplaced block names the place where it belongs.
  CHECK_THAT(with({"tutorial", "--all"}), Contains("C:all"));

  const auto output =
      answer({"steps", "all_reduce", "-a", "ring", "--break", "drop", "--format", "json"});
  REQUIRE(output);
  CHECK(output->status == kWrong);
  const auto document = nlohmann::json::parse(output->text);
  CHECK(document["verdict"]["ok"] == false);
  CHECK(document["theory"].is_null());
  CHECK_THAT(document["broken"].get<std::string>(), Contains("does not send"));
  CHECK_THAT(document["verdict"]["explanation"].get<std::string>(), Contains("sends no more"));
  CHECK(document["rounds"].back()["messages"][0]["received"] == false);
}

TEST_CASE("cc-show verify: wrong usage is told with what was expected", "[show][unit]") {
  for (const char* const ranks : {"0", "4..2", "x", "1..x", "129", "..", "1..", "-1"}) {
    CHECK_THAT(refused({"verify", "all_reduce", "-n", ranks}), Contains("from 1 to 128"));
  }
  CHECK_THAT(refused({"verify", "all_reduce", "--break", "dorp"}), Contains("did you mean drop?"));
  CHECK_THAT(refused({"verify", "all_reduce", "--break"}), Contains("drop|duplicate|reorder"));
  CHECK_THAT(refused({"verify", "--algo", "rng"}), Contains("did you mean ring?"));
  CHECK_THAT(refused({"verify", "all_reduce", "--algo", "rng"}), Contains("did you mean ring?"));
}

TEST_CASE("cc-show verify: an algorithm without an operation is proven of all that have it",
          "[show][unit]") {
  const std::string text = said({"verify", "--algo", "ring", "-n", "1..4"});
  for (const CatalogueEntry& entry : catalogue()) {
    CAPTURE(to_string(entry.kind), to_string(entry.algorithm));
    bool has_row = false;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string operation, algorithm;
      words >> operation >> algorithm;
      has_row |= operation == to_string(entry.kind) && algorithm == to_string(entry.algorithm);
    }
    CHECK(has_row == (entry.algorithm == Algorithm::ring));
  }
}

}  // namespace
}  // namespace ccoll::show::test
