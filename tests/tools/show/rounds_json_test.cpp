// SPDX-License-Identifier: Apache-2.0
#include "show/page/rounds_json.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "said.hpp"

namespace ccoll::show::test {
namespace {

using nlohmann::json;

json document_of(const std::vector<std::string>& words) {
  std::vector<std::string> all = {"steps"};
  all.insert(all.end(), words.begin(), words.end());
  all.insert(all.end(), {"--format", "json"});
  return json::parse(said(all));
}

const json& at(const json& list, const json& index) { return list.at(index.get<std::size_t>()); }

std::vector<std::string> words_of(const CatalogueEntry& entry, Rank size) {
  return {std::string(to_string(entry.kind)),
          "--algo",
          std::string(to_string(entry.algorithm)),
          "-n",
          fmt::format("{}", size),
          "--count",
          fmt::format("{}", 2 * size)};
}

/// Checks that every index and rank in the document refers to an existing item.
void check_references(const json& document) {
  const std::size_t ranks = document["ranks"];
  const std::size_t contents = document["contents"].size();
  for (std::size_t i = 0; i < contents; ++i) {
    for (const json& source : document["contents"][i]["sources"]) CHECK(source < i);
  }
  REQUIRE(document["programs"].size() == ranks);
  for (const json& round : document["rounds"]) {
    CHECK_FALSE(round["sentence"].get<std::string>().empty());
    REQUIRE(round["held"].size() == ranks);
    REQUIRE(round["so_far"].size() == ranks);
    for (const json& held : round["held"]) {
      for (const json& holding : held) {
        CHECK(holding["content"] < contents);
        CHECK(holding["block"] < document["blocks"]);
        const std::string place = holding["place"];
        CHECK(std::set<std::string>{"input", "output", "scratch", "passing"}.contains(place));
      }
    }
    for (const json& message : round["messages"]) {
      CHECK(message["received"] == true);
      const json& sender = at(document["programs"], message["from"]);
      CHECK(message["step"] < at(sender, message["lane"])["steps"].size());
      const json& receiver = at(document["programs"], message["to"]);
      CHECK(message["to_step"] < at(receiver, message["to_lane"])["steps"].size());
      for (const json& piece : message["pieces"]) CHECK(piece["content"] < contents);
    }
  }
}

TEST_CASE("rounds as JSON: every algorithm ends with all results, and the formulas' figures",
          "[show][property]") {
  for (const CatalogueEntry& entry : catalogue()) {
    for (const Rank size : {1, 2, 3, 6}) {
      const json document = document_of(words_of(entry, size));
      CAPTURE(document["title"]);
      CHECK(document["schema"] == 1);
      CHECK(document["verdict"]["ok"] == true);
      check_references(document);
      const json& last = document["rounds"].back();
      CHECK(last["results"]["complete"] == last["results"]["all"]);
      CHECK(last["results"]["all"] > 0);
      std::uint64_t sent = 0;
      for (const json& load : last["so_far"]) sent += load["elems_sent"].get<std::uint64_t>();
      CHECK(sent == document["theory"]["total"]["elems_sent"]);
    }
  }
}

TEST_CASE("rounds as JSON: the numbers are those that the operation makes of 10r + i",
          "[show][unit]") {
  const auto results = [](const std::vector<std::string>& words) {
    const json document = document_of(words);
    std::vector<std::string> numbers;
    for (const json& holding : document["rounds"].back()["held"][0]) {
      if (holding["place"] != "output") continue;
      for (const json& number : at(document["contents"], holding["content"])["numbers"]) {
        numbers.push_back(number);
      }
    }
    return numbers;
  };
  using Texts = std::vector<std::string>;
  CHECK(results({"all_reduce", "--algo", "ring", "-n", "4", "-c", "4"}) ==
        Texts{"60", "64", "68", "72"});
  CHECK(results({"all_reduce", "--algo", "double_tree", "-n", "4", "-c", "4"}) ==
        Texts{"60", "64", "68", "72"});
  CHECK(results({"all_reduce", "-n", "4", "-c", "4", "--op", "avg", "--dtype", "float32"}) ==
        Texts{"15", "16", "17", "18"});
  CHECK(results({"all_reduce", "-n", "4", "-c", "2", "--op", "max"}) == Texts{"30", "31"});
  CHECK(results({"all_gather", "-n", "3", "-c", "2"}) == Texts{"0", "1", "10", "11", "20", "21"});
  CHECK(results({"all_to_all", "-n", "3", "-c", "1"}) == Texts{"0", "10", "20"});
  CHECK(results({"broadcast", "-n", "3", "-c", "2", "--root", "2"}) == Texts{"20", "21"});
  // Wraps modulo 256, as int8 does.
  CHECK(results({"all_reduce", "-n", "6", "-c", "1", "--dtype", "int8"}) == Texts{"-106"});
  // In this type 21 is 20, 20 + 1 is 20 again, and 20 + 11 is 32.
  CHECK(results({"all_reduce", "-n", "3", "-c", "2", "--dtype", "fp8_e4m3"}) == Texts{"30", "32"});
}

}  // namespace
}  // namespace ccoll::show::test
