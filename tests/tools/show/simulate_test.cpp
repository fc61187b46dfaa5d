// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "said.hpp"
#include "show/commands/check.hpp"
#include "show/model/study.hpp"
#include "support/directory.hpp"

namespace ccoll::show::test {
namespace {

using Catch::Contains;

std::string file_text(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST_CASE("cc-show simulate: its table is that of the golden file", "[show][golden]") {
  const std::string text =
      said({"simulate", "all_reduce", "-n", "8,64", "-b", "8,64K,1M", "--net", "ndr"});
  const std::string path = CCOLL_GOLDEN_DIR "/simulate_ndr.txt";
  if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  INFO(path << " (UPDATE_GOLDEN=1 writes it anew)");
  CHECK(file_text(path) == text);
}

TEST_CASE("cc-show simulate: what docs/simulation.md says of 24,576 GPUs is what it finds",
          "[show][golden]") {
  const std::string text = said({"simulate", "all_reduce", "-n", "24576", "-b", "8,64K,256K",
                                 "--net", "summit", "--algo", "ring,double_tree"});
  const std::string page = file_text(CCOLL_GOLDEN_DIR "/../../../../docs/simulation.md");
  std::istringstream lines(text);
  std::size_t found = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  ring") && !line.starts_with("  double_tree")) continue;
    CAPTURE(line);
    CHECK_THAT(page, Contains(line + "\n"));
    ++found;
  }
  CHECK(found == 2);
}

TEST_CASE("cc-show simulate --format json: the same times, sizes and crossings as the table",
          "[show][unit]") {
  const std::vector<std::string> words = {"simulate", "all_reduce", "-n",     "8,64",
                                          "-b",       "8,64K,1G",   "--algo", "ring,tree,leaders"};
  const std::string table = said(words);
  std::vector<std::string> as_json = words;
  as_json.insert(as_json.end(), {"--format", "json"});
  const auto document = nlohmann::json::parse(said(as_json));
  CHECK(document["schema"] == 1);
  CHECK(document["bytes"] == std::vector<std::uint64_t>{8, 64 << 10, 1 << 30});
  REQUIRE(document["sheets"].size() == 2);
  std::size_t times = 0;
  for (const auto& sheet : document["sheets"]) {
    for (const auto& row : sheet["algorithms"])
      for (const auto& us : row["us"]) {
        if (us.is_null()) continue;
        CHECK_THAT(table, Contains(time_text(us.get<double>())));
        ++times;
      }
    for (const auto& reason : sheet["skipped"])
      CHECK_THAT(table, Contains(reason.get<std::string>()));
    for (const auto& crossing : sheet["crossings"])
      CHECK_THAT(table, Contains(crossing["after"].get<std::string>() + " becomes faster than " +
                                 crossing["before"].get<std::string>()));
  }
  CHECK(times > 6);
  CHECK_FALSE(document["sheets"][0]["skipped"].empty());
  CHECK_FALSE(document["sheets"][0]["crossings"].empty());
}

TEST_CASE(
    "cc-show simulate: each number of ranks is told before the next is simulated, then the page",
    "[show][unit]") {
  const testing::Directory folder;
  const std::string page = folder.file("sim.html");
  const std::array argv{"cc-show", "simulate", "reduce", "-n",        "4,16",
                        "-b",      "8",        "-o",     page.c_str()};
  const auto output = run(static_cast<int>(argv.size()), argv.data());
  REQUIRE(output);
  CHECK_THAT(output->text, Contains("reduce") && !Contains("ranks on"));
  for (const std::string ranks : {"4", "16"}) {
    const auto table = output->more();
    REQUIRE(table);
    CHECK_THAT(*table, Contains("\n" + ranks + " ranks on"));
    CHECK(file_text(page).empty());
  }
  CHECK_THAT(output->more().value(), Contains(page));
  CHECK_THAT(file_text(page), Contains("</html>"));
  CHECK(output->more().value().empty());
}

TEST_CASE("cc-show simulate: what is skipped is said, and why", "[show][unit]") {
  const std::string text =
      said({"simulate", "all_reduce", "-n", "24576", "-b", "1G", "--algo", "one_shot,ring"});
  CHECK_THAT(text, Contains("one_shot skipped: 1.2e+12 messages are more than the limit of 1e+10"));
  CHECK_THAT(text, Contains("+ the buffer was taken a little longer"));
  CHECK_THAT(said({"simulate", "all_reduce", "-n", "8", "-b", "8", "--net", "nvlink8"}),
             Contains("leaders skipped: all ranks share one host"));
  CHECK_THAT(said({"simulate", "all_gather", "-n", "8", "-b", "8"}),
             Contains("8 bytes are less than one element for each rank"));
  CHECK_THAT(said({"simulate", "barrier", "-n", "8"}), Contains("dissemination"));
}

TEST_CASE("cc-show simulate: a page stands alone and tells the table's figures", "[show][unit]") {
  const testing::Directory folder;
  const std::string path = folder.file("sim.html");
  const std::string text = said({"simulate", "all_reduce", "-n", "16,64", "-b", "8..1M", "--algo",
                                 "ring,double_tree", "-o", path});
  const std::string page = file_text(path);
  CHECK_THAT(text, Contains("The same as a page: " + path));
  for (const char* part : {"<svg", "<table>", "prefers-color-scheme: dark", "16 ranks", "64 ranks",
                           "becomes faster than", "class=\"mark\"", "NCCL src/graph/tuning.cc"})
    CHECK_THAT(page, Contains(part));
  for (const char* address : {"http://", "https://", "url(", "src=\""}) {
    // The name of XHTML is an address that no browser loads.
    std::string rest = page;
    const std::string name = "http://www.w3.org/1999/xhtml";
    rest.erase(rest.find(name), name.size());
    CHECK_THAT(rest, !Contains(address));
  }
  CHECK_THAT(page, Contains("best)"));
}

TEST_CASE("cc-show simulate: a network of one's own is read from a file", "[show][unit]") {
  const testing::Directory folder;
  const std::string path = folder.file("mine.net");
  std::ofstream(path) << said({"simulate", "--show-net", "--net", "nodes-of-4:shm+eth100"});
  const std::vector<std::string> rest = {"simulate", "all_reduce", "-n", "8", "-b", "64K", "--net"};
  auto by_name = rest, by_file = rest;
  by_name.emplace_back("nodes-of-4:shm+eth100");
  by_file.push_back(path);
  const auto times = [](const std::string& text) { return text.substr(text.find("\n\n")); };
  CHECK(times(said(by_name)) == times(said(by_file)));
  std::ofstream(path) << "inside_latency_us = quick\n";
  CHECK_THAT(refused(by_file), Contains("line 1: inside_latency_us is a number"));
  by_file.back() = path + ".none.net";
  CHECK_THAT(refused(by_file), Contains("cannot read "));
}

TEST_CASE("cc-show simulate: wrong usage says what was given and what was expected",
          "[show][unit]") {
  const auto refusal = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"simulate"});
    return refused(words);
  };
  CHECK_THAT(refusal({}), Contains("no operation given"));
  CHECK_THAT(refusal({"al_reduce"}), Contains("did you mean all_reduce"));
  CHECK_THAT(refusal({"all_reduce", "-n", "8,zero"}), Contains("'zero' is not a number of ranks"));
  CHECK_THAT(refusal({"all_reduce", "-n", "0"}), Contains("expected 1 to"));
  CHECK_THAT(refusal({"all_reduce", "-n", ","}), Contains("expected 1 to 64 numbers"));
  CHECK_THAT(refusal({"all_reduce", "-b", "8,many"}), Contains("'many' is not a size"));
  CHECK_THAT(refusal({"all_reduce", "-b", "1M..8"}), Contains("in order"));
  CHECK_THAT(refusal({"all_reduce", "-b", "0"}), Contains("from 1 to"));
  CHECK_THAT(refusal({"all_reduce", "--algo", "rng"}), Contains("did you mean ring"));
  CHECK_THAT(refusal({"all_reduce", "--net", "sumit"}), Contains("did you mean summit"));
  CHECK_THAT(refusal({"broadcast", "-n", "4", "--root", "4"}), Contains("does not exist"));
  CHECK_THAT(refusal({"all_reduce", "--dtype", "float99"}), Contains("float99"));
  CHECK_THAT(refusal({"all_reduce", "-n", "2", "-b", "8", "-o", "/nowhere/sim.html"}),
             Contains("/nowhere"));
}

TEST_CASE(
    "cc-show simulate --check: what it cannot compare is refused, errors are told as people do",
    "[show][unit]") {
  CHECK_THAT(refused({"simulate", "--check", "-n", "9"}), Contains("expected 2 to 8 ranks"));
  CHECK_THAT(refused({"simulate", "--check", "-n", "1"}), Contains("expected 2 to 8 ranks"));
  CHECK_THAT(refused({"simulate", "--check", "--net", "ndr"}), Contains("excludes"));
  CHECK_THAT(refused({"simulate", "--check", "-b", "8,32M"}), Contains("expected at most 16M"));
  CHECK_THAT(refused({"simulate", "--as-rank", CCOLL_GOLDEN_DIR "/ring_4.txt"}),
             Contains("expected what cc-show has written itself"));
  CHECK(factor_off(10, 20) == Approx(2));
  CHECK(factor_off(20, 10) == Approx(2));
  CHECK(error_text(13, 10) == "+30 %");
  CHECK(error_text(5, 10) == "-50 %");
  CHECK(error_text(120, 10) == "x12");
}

TEST_CASE("cc-show simulate: times are told with three digits", "[show][unit]") {
  CHECK(time_text(0.0126) == "12.6 ns");
  CHECK(time_text(1.004) == "1.00 us");
  CHECK(time_text(99.96) == "100 us");
  CHECK(time_text(999.4) == "999 us");
  CHECK(time_text(999.6) == "1.00 ms");
  CHECK(time_text(12345678) == "12.3 s");
  CHECK(round_time_text(1e4) == "10 ms");
  CHECK(round_time_text(1) == "1 us");
  CHECK(about_text(512) == "512");
  CHECK(about_text(285975) == "279K");
}

}  // namespace
}  // namespace ccoll::show::test
