// SPDX-License-Identifier: Apache-2.0
#include "show/commands/compare.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "said.hpp"
#include "show/model/call.hpp"
#include "show/model/picture.hpp"
#include "show/model/study.hpp"
#include "show/page/curves.hpp"

namespace ccoll::show::test {
namespace {

using Catch::Contains;

/// Latency is 10 us, and a byte takes 1 ns.
std::vector<double> ends(Kind kind, Algorithm algorithm, Rank size, std::uint64_t count) {
  CallWords words;
  words.operation = to_string(kind);
  words.algorithm = to_string(algorithm);
  words.ranks = size;
  words.count = count;
  const auto call = call_of(words);
  REQUIRE(call);
  LinkCosts links;
  links.latency_ns = 10'000;
  links.bandwidth_bytes_per_s = 1e9;
  const auto ends = round_ends_us(picture_of(*call), links);
  INFO((ends ? std::string() : ends.error().message));
  REQUIRE(ends);
  return *ends;
}

TEST_CASE("cc-show compare: rounds last what the formulas say", "[show][unit]") {
  for (const Rank n : {2, 5, 8}) {
    // A block of 500 elements takes 2 us.
    const std::vector<double> ring = ends(Kind::all_reduce, Algorithm::ring, n, 500 * n);
    REQUIRE(ring.size() == 2 * (n - 1));
    for (std::size_t i = 0; i < ring.size(); ++i) CHECK(ring[i] == Approx(12.0 * double(i + 1)));
    // No rank waits, so the latency counts once.
    const std::vector<double> pairs = ends(Kind::all_to_all, Algorithm::pairwise, n, 500);
    REQUIRE(pairs.size() == n - 1);
    CHECK(pairs.back() == Approx(10 + 2.0 * (n - 1)));
    // The root sends everything, and then receives nothing.
    CHECK(ends(Kind::scatter, Algorithm::linear, n, 500).back() == Approx(10 + 2.0 * (n - 1)));
    CHECK(ends(Kind::gather, Algorithm::linear, n, 500).back() == Approx(10 + 2.0 * (n - 1)));
  }
  // Rounds of a tree overlap: leaves that have sent do not wait for ranks that combine.
  for (const CatalogueEntry& entry : catalogue()) {
    for (const Rank n : {2, 5, 8}) {
      CAPTURE(to_string(entry.kind), to_string(entry.algorithm), n);
      const std::vector<double> each = ends(entry.kind, entry.algorithm, n, 500 * n);
      CHECK(std::ranges::is_sorted(each));
      CHECK((each.empty() || each.front() >= 10));
    }
  }
  // A single rank sends nothing.
  CHECK(ends(Kind::all_reduce, Algorithm::ring, 1, 8) == std::vector<double>{0});
}

TEST_CASE("cc-show compare: figures of each algorithm, of any operation", "[show][unit]") {
  const std::string text = said({"compare", "ring", "double_tree", "-n", "8", "-c", "1000",
                                 "--latency", "10", "--bandwidth", "1"});
  CHECK_THAT(text, Contains("all_reduce by ring, double_tree: 8 ranks, 1,000 elements"));
  CHECK_THAT(text, Contains("ring                      14         147.0"));
  CHECK_THAT(text, Contains("10 us"));
  CHECK_THAT(said({"compare", "broadcast", "binomial", "linear"}),
             Contains("broadcast by binomial, linear"));
}

TEST_CASE("cc-show compare: its curves are what simulate says of such a network",
          "[show][property]") {
  CurvesAsked asked;
  asked.operation = *operation_named("all_reduce");
  asked.ranks = 6;
  asked.bytes = 5000;
  asked.links.latency_ns = 5'000;
  asked.links.bandwidth_bytes_per_s = 10e9;
  asked.algorithms = {Algorithm::ring, Algorithm::double_tree};
  const nlohmann::ordered_json curves = curves_json(asked);
  const auto& sliders = curves["sliders"];
  REQUIRE(sliders.size() == 4);
  CHECK(sliders[0]["values"] == std::vector<std::string>{"4", "6", "8", "16"});
  CHECK(sliders[1]["values"] == std::vector<std::string>{"1", "5", "25"});
  CHECK(sliders[2]["values"] == std::vector<std::string>{"2.5", "10", "40"});
  CHECK(sliders[3]["values"][sliders[3]["at"].get<std::size_t>()] == "4K");
  REQUIRE(curves["states"].size() == 4 * 3 * 3);
  Question question;
  question.operation = asked.operation;
  question.algorithms = asked.algorithms;
  question.options.max_steps = kMostCurveSteps;
  for (std::uint64_t bytes = 64; bytes <= 1 << 30; bytes *= 4) question.bytes.push_back(bytes);
  std::size_t state = 0;
  for (const Rank ranks : {4, 6, 8, 16}) {
    for (const double latency_us : {1.0, 5.0, 25.0}) {
      for (const double gb_per_s : {2.5, 10.0, 40.0}) {
        question.network = sim::Network();
        question.network.inside.latency_ns = latency_us * 1e3;
        question.network.inside.bandwidth_bytes_per_s = gb_per_s * 1e9;
        question.network.port_bytes_per_s = gb_per_s * 1e9;
        const Sheet sheet = simulate_sheet(question, ranks);
        const auto& told = curves["states"][state++];
        CHECK(told["crossings"].size() == crossings_of(question, sheet).size());
        for (std::size_t size = 0; size < question.bytes.size(); ++size)
          for (std::size_t i = 0; i < 2; ++i)
            CHECK_THAT(told["sizes"][size].get<std::string>(),
                       Contains(std::string(to_string(asked.algorithms[i])) + " " +
                                time_text(sheet.cells[i][size].us())));
      }
    }
  }
}

TEST_CASE("cc-show compare: its two models have names, and it is said why they differ",
          "[show][unit]") {
  CHECK_THAT(said({"compare", "ring", "tree"}), Contains("By latency and bandwidth alone: "));
  const auto path = std::filesystem::temp_directory_path() / "ccoll_compare_models.html";
  said({"compare", "ring", "tree", "-n", "4", "-o", path.string()});
  std::stringstream page;
  page << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  CHECK_THAT(page.str(), Contains("By latency and bandwidth alone: ") &&
                             Contains("By the simulator: ") &&
                             Contains("its times are longer than those of the pictures above"));
}

TEST_CASE("cc-show compare: wrong usage is named", "[show][unit]") {
  CHECK_THAT(refused({"compare"}), Contains("NAMES"));
  CHECK_THAT(refused({"compare", "ring"}), Contains("two algorithms"));
  CHECK_THAT(refused({"compare", "broadcast", "ring"}), Contains("two algorithms"));
  CHECK_THAT(refused({"compare", "ring", "rinf"}), Contains("rinf"));
  CHECK_THAT(refused({"compare", "ring", "tree", "-o", "/nowhere/page.html"}),
             Contains("/nowhere/page.html"));
  CHECK_THAT(refused({"compare", "ring", "tree", "--bandwidth", "0"}), Contains("--bandwidth"));
}

}  // namespace
}  // namespace ccoll::show::test
