// SPDX-License-Identifier: Apache-2.0

/// Blocks that are columns of a matrix. `real_call_test.cpp` has those of different sizes.

#include <fmt/format.h>

#include "said.hpp"

namespace ccoll::show::test {
namespace {

using Catch::Contains;

TEST_CASE("cc-show call --rows: each row of columns is as a call on that row alone",
          "[show][property]") {
  constexpr std::size_t kRows = 3;
  for (const std::string operation :
       {"all_gather", "gather", "scatter", "reduce_scatter", "all_to_all"}) {
    for (const std::string groups : {"0,1,2,3", "3,1/0,2"}) {
      CAPTURE(operation, groups);
      const auto call = [&](std::vector<std::string> words) {
        words.insert(words.begin(), {operation, "-n", "4", "--count", "2", "--groups", groups});
        if (operation == "gather" || operation == "scatter")
          words.insert(words.end(), {"--root", "1"});
        return called(std::move(words));
      };
      const std::size_t blocks = operation.ends_with("gather")     ? 1
                                 : groups.find('/') == groups.npos ? 4
                                                                   : 2;
      const auto result = call({"--rows", std::to_string(kRows)});
      CHECK(result["rows"] == kRows);
      for (std::size_t row = 0; row < kRows; row++) {
        const auto alone = call({"--in", fmt::format("10*r+i+{}", row * 2 * blocks)});
        for (const std::string side : {"before", "after"})
          for (std::size_t rank = 0; rank < 4; rank++) {
            CAPTURE(side, rank, row);
            const auto& matrix = result[side][rank];
            CHECK((matrix.empty() ? matrix : matrix[row]) == alone[side][rank]);
          }
      }
    }
  }
}

/// A matrix of five rows, each of which has these numbers.
nlohmann::json five_of(const std::vector<int>& row) { return std::vector(5, row); }

TEST_CASE("cc-show call --rows: columns are gathered, scattered, reduced and exchanged", "[show]") {
  for (const std::string transport : {"inproc", "shm", "tcp"}) {
    CAPTURE(transport);
    const auto after = [&](std::vector<std::string> words) {
      words.insert(words.end(), {"-n", "4", "--rows", "5", "--transport", transport});
      return called(std::move(words))["after"];
    };
    // 5×2 blocks of four ranks become a 5×8 matrix.
    const auto whole = five_of({0, 1, 10, 11, 20, 21, 30, 31});
    const auto gathered = after({"gather", "-c", "2", "--in", "10*r+i%2"});
    CHECK(gathered[0] == whole);
    CHECK(gathered[3].empty());
    const auto all_gathered = after({"all_gather", "-c", "2", "--in", "10*r+i%2"});
    // Column j of a 5×4 matrix is all 10r + j.
    const auto reduced = after({"reduce_scatter", "--in", "10*r+i%4"});
    const auto scattered = after({"scatter", "--root", "2", "--in", "10*r+i%4"});
    const auto exchanged = after({"all_to_all", "--in", "10*r+i%4"});
    for (int rank = 0; rank < 4; rank++) {
      CAPTURE(rank);
      const auto at = static_cast<std::size_t>(rank);
      CHECK(all_gathered[at] == whole);
      CHECK(reduced[at] == five_of({60 + 4 * rank}));
      CHECK(scattered[at] == five_of({20 + rank}));
      CHECK(exchanged[at] == five_of({rank, 10 + rank, 20 + rank, 30 + rank}));
    }
  }
}

TEST_CASE("cc-show call --rows: matrices are told to people", "[show][golden]") {
  CHECK(said({"call", "gather", "-n", "2", "--rows", "3", "-c", "2", "--algo", "linear"}) ==
        "gather_v of 2 columns of 3 int32 in each block, root 0, by linear, 2 ranks over\n"
        "inproc\n\n"
        "         before  after\n"
        "rank 0   0 1     0 1 10 11\n"
        "         2 3     2 3 12 13\n"
        "         4 5     4 5 14 15\n"
        "rank 1   10 11   -\n"
        "         12 13\n"
        "         14 15\n");
  CHECK(said({"call", "all_to_all", "-n", "2", "--rows", "2", "--splits", "1,2/0,3"}) ==
        "all_to_all_v of 1,2/0,3 columns of 2 int32, by pairwise, 2 ranks over inproc\n\n"
        "         before    after\n"
        "rank 0   0 1 2     0\n"
        "         3 4 5     3\n"
        "rank 1   10 11 12  1 2 10 11 12\n"
        "         13 14 15  4 5 13 14 15\n");
  CHECK(said({"call", "all_gather", "-n", "5", "--rows", "2", "--groups", "2,0/1,3", "--algo",
              "ring", "--in", "6*r-i"}) ==
        "all_gather_v of int32, 5 ranks over inproc\n\n"
        "         before  after\n"
        "group 2,0: 1 column of 2 int32 in each block, by ring\n"
        "rank 2   12      12  0\n"
        "         11      11 -1\n"
        "rank 0    0      12  0\n"
        "         -1      11 -1\n"
        "group 1,3: 1 column of 2 int32 in each block, by ring\n"
        "rank 1   6       6 18\n"
        "         5       5 17\n"
        "rank 3   18      6 18\n"
        "         17      5 17\n"
        "in no group: rank 4\n");
  // The same columns are left out of all rows.
  CHECK(said({"call", "all_gather", "-n", "1", "--rows", "2", "-c", "9", "--width", "40"}) ==
        "all_gather_v of 9 columns of 2 int32 in\n"
        "each block, 1 rank over inproc\n\n"
        "         before          after\n"
        "rank 0   0  1  2 ..  8   0  1  2 ..  8\n"
        "         9 10 11 .. 17   9 10 11 .. 17\n"
        "..: more than fits; --width N makes\n"
        "room, --json has all\n");
}

TEST_CASE("cc-show call --rows: what cannot be is refused", "[show]") {
  const auto call = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"call", "-n", "4"});
    return refused(words);
  };
  CHECK_THAT(
      call({"all_reduce", "--rows", "5"}),
      Contains("--rows 5: all_reduce has no blocks that can be columns; expected all_gather"));
  CHECK_THAT(call({"send_recv", "--rows", "5"}), Contains("send_recv has no blocks that can be"));
  CHECK_THAT(call({"gather", "--rows", "0"}), Contains("--rows: Value 0 not in range 1 to 1000"));
  CHECK_THAT(call({"gather", "--rows", "x"}), Contains("--rows: Value x not in range 1 to 1000"));
  CHECK_THAT(call({"gather", "--rows", "1000", "-c", "1099511627776"}),
             Contains("expected at most 100000"));
  CHECK_THAT(call({"gather", "--rows", "5", "--splits", "1,2"}),
             Contains("2 numbers in '1,2', expected one for each of 4 ranks"));
  CHECK_THAT(call({"gather", "--rows", "5", "--splits", "1,2,1,2", "-c", "2"}),
             Contains("--count 2: gather_v has blocks of different sizes; expected --splits"));
  CHECK_THAT(call({"all_gather", "--rows", "5", "--buffers", "1,2"}),
             Contains("--rows 5 and --buffers 1,2: expected one of them"));
  CHECK_THAT(call({"send_recv", "--rows", "5", "--chain", "0,1"}),
             Contains("--chain 0,1 and --rows 5: expected one of them"));
}

}  // namespace
}  // namespace ccoll::show::test
