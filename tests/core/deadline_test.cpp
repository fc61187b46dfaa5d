// SPDX-License-Identifier: Apache-2.0
#include "core/deadline.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

using namespace ccoll;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

TEST_CASE("deadlines: however long a time is, its end is ahead", "[core][unit]") {
  const auto now = std::chrono::steady_clock::now();
  CHECK(deadline_after(250ms, now) == now + 250ms);
  CHECK(deadline_after(3us, now) == now + 3us);
  const auto year = now + std::chrono::hours(24 * 365);
  CHECK(deadline_after(kNoLimit, now) == year);
  CHECK(deadline_after(kNoLimit - 1ms, now) == year);
  // This many overflow as nanoseconds.
  CHECK(deadline_after(9'300'000'000'000ms, now) == year);
  CHECK(deadline_after(std::chrono::hours::max(), now) == year);
  CHECK(deadline_after(std::chrono::nanoseconds::max(), now) == year);
  CHECK(deadline_after(-1ms, now) == now);
  CHECK(deadline_after(std::chrono::milliseconds::min(), now) == now);
}

TEST_CASE("deadlines: nothing but constants is added to a clock elsewhere", "[core][unit]") {
  const fs::path root = CCOLL_SOURCE_ROOT;
  const std::regex addition(R"(now\(\)\s*\+(?!\s*(k[A-Z]|\d|std::chrono::\w+\((\d|k[A-Z]))))");
  std::size_t files = 0;
  for (const char* folder : {"include", "src", "bench", "tools", "tests/support"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const auto extension = entry.path().extension();
      if (extension != ".cpp" && extension != ".hpp") continue;
      if (entry.path() == root / "src/core/deadline.hpp") continue;
      std::ifstream file(entry.path());
      const std::string source{std::istreambuf_iterator<char>(file), {}};
      files++;
      CAPTURE(entry.path().string());
      // deadline_after() adds without overflow.
      CHECK_FALSE(std::regex_search(source, addition));
    }
  }
  CHECK(files > 500);
}
