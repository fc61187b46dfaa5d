// SPDX-License-Identifier: Apache-2.0
#include "show/page/page.hpp"

#include <unistd.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "algorithms/algorithms.hpp"
#include "said.hpp"
#include "show/page/page_parts.hpp"
#include "support/directory.hpp"

namespace ccoll::show::test {
namespace {

using Catch::Contains;
using nlohmann::json;

std::string content_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string page_by(const std::vector<std::string>& words) {
  const testing::Directory folder;
  const std::string path = folder.file("page.html");
  std::vector<std::string> all = {"page"};
  all.insert(all.end(), words.begin(), words.end());
  all.insert(all.end(), {"-o", path});
  CHECK_THAT(said(all), Contains(path));
  return content_of(path);
}

json data_of(const std::string& page) {
  const std::string opening = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = page.find(opening) + opening.size();
  REQUIRE(begin > opening.size());
  return json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST_CASE("cc-show page: every algorithm's page has its data, and every name is filled in",
          "[show][property]") {
  for (const CatalogueEntry& entry : catalogue()) {
    const std::string algorithm(to_string(entry.algorithm));
    const std::string page =
        page_by({std::string(to_string(entry.kind)), "--algo", algorithm, "-n", "3"});
    const json data = data_of(page);
    CAPTURE(data["runs"][0]["title"]);
    REQUIRE(data["runs"].size() == (data["runs"][0]["trees_are"] == "" ? 1 : 2));
    CHECK(data["runs"][0]["algorithm"] == algorithm);
    CHECK(data["runs"][0]["rounds"].back()["cells"].size() == 3);
    for (const char* name : {"@TITLE@", "@STYLE@", "@SCRIPT@", "@DATA@"}) {
      CHECK_THAT(page, !Contains(name));
    }
  }
}

TEST_CASE("cc-show page: lessons are about algorithms that there are, with three questions each",
          "[show][unit]") {
  const json lessons = json::parse(kPageLessons.front());
  CHECK_FALSE(lessons.empty());
  for (const auto& [operation, algorithms] : lessons.items()) {
    for (const auto& [algorithm, lesson] : algorithms.items()) {
      CAPTURE(operation, algorithm);
      CHECK(data_of(page_by({operation, "--algo", algorithm}))["runs"][0]["lesson"] == lesson);
      CHECK_FALSE(lesson["takeaway"].get<std::string>().empty());
      CHECK_FALSE(lesson["formula"].get<std::string>().empty());
      CHECK(lesson["questions"].size() == 3);
      for (const json& question : lesson["questions"]) CHECK(question.size() == 2);
    }
  }
  CHECK(data_of(page_by({"barrier"}))["runs"][0]["lesson"].is_null());
}

TEST_CASE("cc-show page: several algorithms stand on one page", "[show][unit]") {
  const json data = data_of(page_by({"all_reduce", "--algo", "ring,tree", "-n", "4"}));
  REQUIRE(data["runs"].size() == 2);
  CHECK(data["runs"][0]["algorithm"] == "ring");
  CHECK(data["runs"][1]["algorithm"] == "tree");
  const std::string path = (std::filesystem::temp_directory_path() / "ccoll_two.html").string();
  const std::string text =
      said({"page", "all_reduce", "--algo", "ring,tree", "-n", "4", "-o", path});
  std::filesystem::remove(path);
  CHECK_THAT(text, Contains("all_reduce by ring, 4 ranks") &&
                       Contains("\n  and all_reduce by tree, 4 ranks"));
}

TEST_CASE("cc-show page: of a second tree both forms are there, mirrored and shifted",
          "[show][unit]") {
  for (const int ranks : {3, 7, 8, 31, 32}) {
    const json data =
        data_of(page_by({"all_reduce", "--algo", "double_tree", "-n", std::to_string(ranks)}));
    REQUIRE(data["runs"].size() == 2);
    CHECK(data["runs"][0]["ranks"] == ranks);
    for (const json& run : data["runs"])
      CHECK(run["trees_are"] == (run["ranks"].get<int>() % 2 == 0 ? "mirrored" : "shifted"));
    CHECK(data["runs"][0]["trees_are"] != data["runs"][1]["trees_are"]);
  }
  CHECK(data_of(page_by({"all_reduce", "--algo", "tree"}))["runs"][0]["trees_are"] == "");
}

TEST_CASE("cc-show page: every message of a small ring is broken, as the verifier says",
          "[show][unit]") {
  const json run = data_of(page_by({"all_reduce", "--algo", "ring", "-n", "4"}))["runs"][0];
  std::map<std::string, int> ways;
  for (const json& fault : run["faults"]) {
    CHECK(fault["ok"] == fault["text"].get<std::string>().empty());
    CHECK_FALSE(fault["what"].get<std::string>().empty());
    ++ways[fault["how"]];
    // A rank waits for the lost message.
    if (fault["how"] == "drop") CHECK_THAT(fault["text"], Contains("waits for a message"));
  }
  // Each rank has six messages.
  CHECK(ways["drop"] == 24);
  CHECK(ways["reorder"] == 24);
  CHECK(ways["duplicate"] > 0);
  const json alone = data_of(page_by({"all_reduce", "-n", "1"}))["runs"][0];
  CHECK(alone["faults"].empty());
}

TEST_CASE("cc-show page: it loads nothing from anywhere and its own parts stay small",
          "[show][unit]") {
  const std::string page = page_of("none", {{"runs", json::array()}});
  CHECK(page.size() < 150'000);
  CHECK_THAT(page, Contains("default-src 'none'"));
  for (const char* name : {"src=\"", "href=\"http", "url(", "@import", "fetch("}) {
    CHECK_THAT(page, !Contains(name));
  }
  // The only address is the namespace of an element.
  std::size_t addresses = 0;
  for (std::size_t at = page.find("://"); at != std::string::npos; at = page.find("://", at + 1)) {
    addresses++;
  }
  CHECK(addresses == 1);
  CHECK_THAT(page, Contains("'http://www.w3.org/2000/svg'"));
}

TEST_CASE("cc-show page: what stands in the data cannot end its element", "[show][unit]") {
  const std::string hostile = "</script><script>alert(1)</script> @DATA@ & <b>";
  const std::string page = page_of(hostile, {{"runs", hostile}});
  CHECK(data_of(page)["runs"] == hostile);
  CHECK_THAT(page, !Contains("<script>alert") && !Contains("<b>"));
  CHECK_THAT(page, Contains("&lt;/script>&lt;script>alert(1)"));
}

TEST_CASE("cc-show page: wrong usage is named, and leaves no file", "[show][unit]") {
  const testing::Directory folder;
  const std::string path = folder.file("page.html");
  CHECK_THAT(refused({"page", "all_reduce"}), Contains("--output"));
  CHECK_THAT(refused({"page", "all_reduce", "-o", folder.file("none/page.html")}),
             Contains("none/page.html"));
  CHECK_THAT(refused({"page", "all_reduce", "--algo", "ring,rinf", "-o", path}),
             Contains("rinf") && Contains("ring"));
  CHECK_THAT(refused({"page", "all_reduce", "-n", "33", "-o", path}), Contains("33"));
  CHECK_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace ccoll::show::test
