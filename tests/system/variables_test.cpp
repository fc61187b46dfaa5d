// SPDX-License-Identifier: Apache-2.0
#include "system/variables.hpp"

#include <stdlib.h>

#include <fmt/format.h>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>

#include "core/deadline.hpp"

namespace ccoll {
namespace {

namespace fs = std::filesystem;
const fs::path kRoot = CCOLL_SOURCE_ROOT;

std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// An item of a page's list, filled to the columns of a page.
std::string list_item(const std::string& text) {
  constexpr std::size_t kColumns = 110;
  std::istringstream words(text);
  std::string item, line = "-";
  for (std::string word; words >> word;) {
    if (line.size() + 1 + word.size() > kColumns) {
      item += line + "\n";
      line = " ";
    }
    line += " " + word;
  }
  return item + line + "\n";
}

/// The table as in docs/environment.md, from its first heading on.
std::string page_of_table() {
  std::string page;
  for (const VariableGroup& group : variable_groups()) {
    page += fmt::format("## {}\n\n", group.title);
    for (const Variable& variable : group.variables)
      page += list_item(
          fmt::format("`{}` ({}): {}", variable.name, variable.otherwise, variable.meaning));
    page += "\n";
  }
  page.pop_back();
  return page;
}

/// Quoted words of a source file that look like names of variables that it reads.
std::set<std::string> names_in(const std::string& source) {
  static const std::regex name(
      "\"((CCOLL|MASTER|TORCHELASTIC|OMPI|PMI|PMIX|MPI|SLURM)_[A-Za-z_]*[A-Za-z]|TMPDIR|RANK|"
      "WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|XDG_[A-Z_]+|HOME|TERM|NO_COLOR|PATH|LD_PRELOAD)\"");
  std::set<std::string> names;
  for (std::sregex_iterator at(source.begin(), source.end(), name), end; at != end; ++at)
    names.insert((*at)[1]);
  return names;
}

}  // namespace

TEST_CASE("variables: docs/environment.md is the table, word for word", "[core][unit]") {
  const fs::path path = kRoot / "docs/environment.md";
  const std::string page = read(path);
  const std::size_t heading = page.find("\n## ");
  REQUIRE(heading != page.npos);
  const std::string expected = page.substr(0, heading + 1) + page_of_table();
  if (::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(path) << expected;
  const bool same = page == expected;
  INFO("UPDATE_GOLDEN=1 writes the page anew");
  CHECK(same);
}

TEST_CASE("variables: whatever the sources name is in the table, and the other way round",
          "[core][unit]") {
  std::set<std::string> named;
  for (const char* folder : {"src", "bench", "tools"}) {
    for (const auto& file : fs::recursive_directory_iterator(kRoot / folder)) {
      if (file.path().extension() != ".cpp" || file.path().filename() == "variables.cpp") continue;
      const std::string source = read(file.path());
      named.merge(names_in(source));
      CAPTURE(file.path().string());
      const bool asks_the_system = source.find("getenv(") != source.npos;
      CHECK_FALSE(asks_the_system);
    }
  }
  for (const auto& file : fs::recursive_directory_iterator(kRoot / "python/ccoll"))
    if (file.path().extension() == ".py") named.merge(names_in(read(file.path())));
  for (const std::string& name : named) {
    CAPTURE(name);
    CHECK(is_known_variable(name));
  }
  std::set<std::string_view> once;
  for (const VariableGroup& group : variable_groups()) {
    for (const Variable& variable : group.variables) {
      CAPTURE(variable.name);
      CHECK(named.contains(std::string(variable.name)));
      CHECK(once.insert(variable.name).second);
      CHECK_FALSE(variable.otherwise.empty());
      CHECK_FALSE(variable.meaning.empty());
    }
  }
}

TEST_CASE("variables: unknown ones are told with what may have been meant", "[core][unit]") {
  const std::vector<std::string> names = {
      "PATH",        "CCOLL_ALGO",   "CCOLL_TEST_FULL", "CCOLL_ALGOS",  "CCOLL_LOG_LEVEL",
      "CCOLL_SOTRE", "CCOLL_IFNAME", "CCOLL_XYZZY",     "XCCOLL_STORE", "CCOLL_store"};
  const std::string set = " is set, but ccoll reads no such variable";
  CHECK(unknown_variables(names) ==
        std::vector<std::string>{
            "CCOLL_ALGOS" + set + ": did you mean CCOLL_ALGO?",
            "CCOLL_LOG_LEVEL" + set + ": did you mean CCOLL_LOG?",
            "CCOLL_SOTRE" + set + ": did you mean CCOLL_STORE?",
            "CCOLL_IFNAME" + set + ": did you mean CCOLL_SOCKET_IFNAME?",
            "CCOLL_XYZZY" + set + "; docs/environment.md lists those that it reads",
            "CCOLL_store" + set + ": did you mean CCOLL_STORE?"});
}

TEST_CASE("variables: one that is empty counts as not set", "[core][unit]") {
  ::setenv("CCOLL_JOB", "", 1);
  CHECK_FALSE(read_variable("CCOLL_JOB"));
  ::setenv("CCOLL_JOB", "night", 1);
  CHECK(read_variable("CCOLL_JOB") == "night");
  ::unsetenv("CCOLL_JOB");
  CHECK_FALSE(read_variable("CCOLL_JOB"));
}

TEST_CASE("variables: whatever is set to what it may not be is found, and named",
          "[core][property]") {
  std::size_t tried = 0;
  const auto said = [&](const std::string& name, const std::string& text) {
    ::setenv(name.c_str(), text.c_str(), 1);
    const Status checked = check_variables();
    ::unsetenv(name.c_str());
    tried++;
    return checked ? "" : checked.error().message;
  };
  for (const VariableGroup& group : variable_groups()) {
    for (const Variable& variable : group.variables) {
      const std::string name(variable.name);
      const auto& [words, least, most, shortest, longest, endless, is_list] = variable.values;
      if (words.empty() && most < least) continue;
      const std::string expected =
          fmt::format("{}{}", fmt::join(words, ", "),
                      is_list ? ", several with commas, or ^ and those not to be taken" : "");
      CAPTURE(name);
      REQUIRE(said(name, "") == "");
      for (const std::string_view word : words) {
        CHECK(said(name, std::string(word)) == "");
        const std::string wrong = std::string(word) + "x";
        CHECK(said(name, wrong) ==
              fmt::format("{}={}: expected {}; did you mean {}?", name, wrong, expected, word));
        // No other value is a list.
        const auto several = fmt::format("^{},{}", words.front(), word);
        CHECK((said(name, several) == "") == is_list);
        CHECK(said(name, several + ",").starts_with(name + "="));
      }
      if (!words.empty()) {
        CHECK(said(name, "42") == fmt::format("{}=42: expected {}", name, expected));
        continue;
      }
      for (const long number : {least, most}) CHECK(said(name, std::to_string(number)) == "");
      for (const std::string& wrong : {std::to_string(least - 1), std::to_string(most + 1),
                                       std::to_string(most) + "x", std::string("many")}) {
        CHECK(said(name, wrong) ==
              fmt::format("{}={} is not a whole number from {} to {}", name, wrong, least, most));
      }
    }
  }
  CHECK(tried > 100);
}

TEST_CASE("variables: a time is so many seconds with fractions, or its word for no limit",
          "[core][unit]") {
  using std::chrono::milliseconds;
  const auto read = [](const std::string& name, const std::string& text) {
    ::setenv(name.c_str(), text.c_str(), 1);
    auto time = read_time(name);
    const Status checked = check_variables();
    ::unsetenv(name.c_str());
    CHECK(checked.has_value() == time.has_value());
    return time;
  };
  std::size_t times = 0;
  for (const VariableGroup& group : variable_groups()) {
    for (const Variable& variable : group.variables) {
      const std::string name(variable.name);
      const auto& values = variable.values;
      const auto& [shortest, longest, endless] =
          std::tie(values.shortest, values.longest, values.endless);
      if (longest.count() == 0) continue;
      CAPTURE(name);
      times++;
      const auto seconds = [](milliseconds time) {
        return fmt::format("{:.3f}", std::chrono::duration<double>(time).count());
      };
      CHECK_FALSE(read(name, "").value());
      for (const milliseconds time : {shortest, longest, milliseconds(1500)})
        CHECK(read(name, seconds(time)).value() == time);
      CHECK(read(name, "12").value() == milliseconds(12'000));
      CHECK(read(name, "1.2501").value() == milliseconds(1251));
      CHECK(read(name, std::string(endless)).value() == kNoLimit);
      for (const std::string& wrong :
           {seconds(shortest - milliseconds(1)), seconds(longest + milliseconds(1)),
            std::string("-1"), std::string("nan"), std::string("inf"), std::string("1e999"),
            std::string("10s"), std::string("1,5"), std::string(" 1"), std::string("soon")}) {
        const auto refused = read(name, wrong);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().message ==
              fmt::format("{}={} is not a time in seconds from {:g} to {:.0f}, or {}", name, wrong,
                          std::chrono::duration<double>(shortest).count(),
                          std::chrono::duration<double>(longest).count(), endless));
      }
    }
  }
  CHECK(times >= 2);
}

}  // namespace ccoll
