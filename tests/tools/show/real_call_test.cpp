// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/operations.hpp"
#include "said.hpp"
#include "show/expression.hpp"

namespace ccoll::show::test {
namespace {

using Catch::Contains;

nlohmann::json called(std::vector<std::string> words) {
  words.insert(words.begin(), "call");
  words.push_back("--json");
  return nlohmann::json::parse(said(words));
}

/// A file that is gone with it.
class File {
 public:
  explicit File(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("ccoll-call-{}-{}", getpid(), ++count_)) {
    std::ofstream(path_) << text;
  }
  ~File() { std::filesystem::remove(path_); }
  File(const File&) = delete;
  std::string path() const { return path_.string(); }

 private:
  static inline int count_ = 0;
  const std::filesystem::path path_;
};

TEST_CASE("expression: computes as one does on paper", "[show][unit]") {
  const auto value = [](std::string_view text) { return evaluate(text, 3, 5, 8).value(); };
  CHECK(value("10*r+i") == 35);
  CHECK(value(" r + i * n ") == 43);
  CHECK(value("(r+i)*n") == 64);
  CHECK(value("-r--i") == 2);
  CHECK(value("10-3-2") == 5);
  CHECK(value("100/5/2") == 10);
  CHECK(value("i%r+0.5") == 2.5);
  for (const auto& [text, column] :
       {std::pair{"", 1}, {"10*", 4}, {"r i", 3}, {"(r", 3}, {"x", 1}, {"1..2", 3}, {"1e999", 1}}) {
    CAPTURE(text);
    const auto wrong = evaluate(text, 0, 0, 1);
    REQUIRE_FALSE(wrong);
    CHECK_THAT(wrong.error().message, Contains(fmt::format("column {}: ", column)));
  }
  CHECK_THAT(evaluate("i/r", 0, 1, 1).error().message, Contains("division by 0 where r is 0"));
  CHECK_FALSE(evaluate(std::string(1'000'000, '('), 0, 0, 1));
  CHECK_FALSE(evaluate(std::string(1'000'000, '-'), 0, 0, 1));
}

TEST_CASE("cc-show call: every operation gives what it promises, by any number of ranks",
          "[show][property]") {
  for (const bench::Operation& operation : bench::operations()) {
    if (operation.ragged || !operation.has_data || operation.name == "ping_pong") continue;
    for (const int ranks : {1, 2, 3, 5}) {
      const int root = operation.rooted ? ranks - 1 : 0;
      constexpr std::uint64_t kCount = 4;
      CAPTURE(operation.name, ranks);
      const auto result =
          called({std::string(operation.name), "-n", std::to_string(ranks), "--count", "4",
                  "--root", std::to_string(root), "--dtype", "int64"});
      for (int rank = 0; rank < ranks; rank++) {
        std::vector<std::int64_t> expected;
        const bench::Shape shape{ranks, rank, root, kCount};
        for (const bench::Segment& segment : operation.layout(shape).result) {
          for (std::uint64_t i = segment.first; i < segment.first + segment.elems; i++) {
            std::int64_t sum = 0;
            for (int source = 0; source < ranks; source++)
              if (segment.source == bench::Segment::kReduced || segment.source == source)
                sum += 10 * source + static_cast<std::int64_t>(i);
            expected.push_back(sum);
          }
        }
        if (!expected.empty()) CHECK(result["after"][std::size_t(rank)] == expected);
      }
    }
  }
}

TEST_CASE("cc-show call: over every transport, by an algorithm that is asked for", "[show]") {
  for (const std::string transport : {"inproc", "shm", "tcp"}) {
    const auto result =
        called({"all_reduce", "-n", "3", "--transport", transport, "--algo", "ring"});
    CHECK(result["algo"] == "ring");
    CHECK(result["transport"] == transport);
    CHECK(result["after"][2] == std::vector{30, 33, 36});
  }
}

TEST_CASE("cc-show call: numbers from a file, a line for each rank", "[show]") {
  const File file("1 2 3.5\n-4, 5,6\n");
  CHECK(called({"all_reduce", "-n", "2", "--in", file.path(), "--dtype", "float32"})["after"][0] ==
        std::vector{-3.0, 7.0, 9.5});
  CHECK(called({"all_gather", "-n", "2", "--in", file.path(), "--dtype", "float32"})["count"] == 3);
  CHECK_THAT(refused({"call", "all_reduce", "-n", "3", "--in", file.path(), "--dtype", "float32"}),
             Contains("rank 2 (line 3) needs 3 numbers, there are 0"));
  CHECK_THAT(refused({"call", "all_reduce", "-n", "2", "--in", file.path()}),
             Contains("rank 0: element 2 is 3.5, which int32 does not hold"));
  const File bad("1 two\n");
  CHECK_THAT(refused({"call", "all_reduce", "-n", "1", "--in", bad.path()}),
             Contains("line 1: 'two' is no number"));
}

TEST_CASE("cc-show call: the table is for people", "[show][golden]") {
  CHECK(said({"call", "all_reduce", "-n", "3", "--algo", "ring", "--count", "2"}) ==
        "all_reduce of 2 int32, sum, by ring, 3 ranks over inproc\n\n"
        "         before  after\n"
        "rank 0   0 1     30 33\n"
        "rank 1   10 11   30 33\n"
        "rank 2   20 21   30 33\n");
}

TEST_CASE("cc-show call: what cannot be is refused", "[show]") {
  CHECK_THAT(refused({"call"}), Contains("no operation given"));
  CHECK_THAT(refused({"call", "all_to_all_v"}), Contains("no operation 'all_to_all_v'"));
  CHECK_THAT(refused({"call", "all_reduce", "--in", "r+"}), Contains("column 3: it ends"));
  CHECK_THAT(refused({"call", "all_reduce", "--in", "300", "--dtype", "int8"}),
             Contains("element 0 is 300, which int8 does not hold"));
  CHECK_THAT(refused({"call", "all_reduce", "--count", "100001"}), Contains("at most 100000"));
  CHECK_THAT(refused({"call", "reduce", "--root", "4"}), Contains("root 4 does not exist"));
  CHECK_THAT(refused({"call", "all_reduce", "--transport", "ib"}), Contains("no transport 'ib'"));
  CHECK_THAT(refused({"call", "all_reduce", "--algo", "bruck"}), Contains("no algorithm 'bruck'"));
}

}  // namespace
}  // namespace ccoll::show::test
