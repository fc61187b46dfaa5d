// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "bench/measure/operations.hpp"
#include "said.hpp"
#include "show/real/expression.hpp"

namespace ccoll::show::test {
namespace {

using Catch::Contains;

/// A file that is removed with this.
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

/// With --root, if the operation has one.
std::vector<std::string> rooted(const bench::Operation& operation, int root,
                                std::vector<std::string> words) {
  if (operation.rooted) words.insert(words.end(), {"--root", std::to_string(root)});
  return words;
}

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
    if (operation.ragged || operation.name == "ping_pong") continue;
    for (const int ranks : {1, 2, 3, 5}) {
      const int root = operation.rooted ? ranks - 1 : 0;
      constexpr std::uint64_t kCount = 4;
      CAPTURE(operation.name, ranks);
      const auto result = called(rooted(operation, root,
                                        {std::string(operation.name), "-n", std::to_string(ranks),
                                         "--count", "4", "--dtype", "int64"}));
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

/// The expected result of rank `rank` of a group after a v-operation, by MPI's definitions. `sent`
/// holds what each sends to each; the numbers show a job's rank.
std::vector<std::int64_t> expected_after(const bench::Operation& operation,
                                         const std::vector<std::vector<int>>& sent,
                                         const std::vector<int>& job_ranks, std::size_t rank,
                                         std::size_t root) {
  const auto number = [&](std::size_t from, int i) {
    return std::int64_t{10} * job_ranks[from] + i;
  };
  const auto before = [](const std::vector<int>& row, std::size_t end) {
    return std::accumulate(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(end), 0);
  };
  std::vector<std::int64_t> all;
  const std::size_t size = job_ranks.size();
  switch (*operation.kind) {
    case Kind::all_gather:
    case Kind::gather:
      if (operation.rooted && rank != root) return all;
      for (std::size_t from = 0; from < size; ++from)
        for (int i = 0; i < sent[0][from]; ++i) all.push_back(number(from, i));
      return all;
    case Kind::scatter:
      for (int i = 0; i < sent[0][rank]; ++i)
        all.push_back(number(root, before(sent[0], rank) + i));
      return all;
    case Kind::reduce_scatter:
      for (int i = 0; i < sent[0][rank]; ++i) {
        all.push_back(0);
        for (std::size_t from = 0; from < size; ++from)
          all.back() += number(from, before(sent[0], rank) + i);
      }
      return all;
    default:
      for (std::size_t from = 0; from < size; ++from)
        for (int i = 0; i < sent[from][rank]; ++i)
          all.push_back(number(from, before(sent[from], rank) + i));
      return all;
  }
}

std::string splits_text(const std::vector<std::vector<int>>& rows) {
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i)
      text += fmt::format("{}{}", i > 0 ? "," : text.empty() ? "" : "/", row[i]);
  }
  return text;
}

TEST_CASE("cc-show call --splits: every v-operation gives what it promises, in groups too",
          "[show][property]") {
  // Two groups with their own order of ranks, and one rank in none.
  const std::vector<std::vector<int>> groups = {{4, 0, 2}, {1, 3, 6}};
  for (const bench::Operation& operation : bench::operations()) {
    if (!operation.ragged) continue;
    std::vector<std::vector<int>> sent(3, {2, 0, 3});
    std::string splits = "2,0,3";
    if (operation.kind == Kind::all_to_all) {
      sent = {{0, 1, 2}, {3, 0, 0}, {1, 1, 1}};
      splits = splits_text(sent);
    }
    for (const std::size_t root :
         operation.rooted ? std::vector<std::size_t>{0, 2} : std::vector<std::size_t>{0}) {
      CAPTURE(operation.name, root);
      const auto result = called(rooted(operation, static_cast<int>(root),
                                        {std::string(operation.name), "-n", "7", "--splits", splits,
                                         "--groups", splits_text(groups), "--dtype", "int64"}));
      for (const auto& group : groups)
        for (std::size_t rank = 0; rank < group.size(); ++rank)
          CHECK(result["after"][static_cast<std::size_t>(group[rank])] ==
                expected_after(operation, sent, group, rank, root));
      CHECK(result["after"][5].empty());
      CHECK(result["groups"][1]["splits"] == splits);
    }
  }
}

TEST_CASE("cc-show call --groups: every operation is made in each group, over every transport",
          "[show][property]") {
  for (const bench::Operation& operation : bench::operations()) {
    if (operation.ragged || operation.name == "ping_pong") continue;
    CAPTURE(operation.name);
    const auto apart = [&](const std::string& transport) {
      return called({std::string(operation.name), "-n", "4", "--groups", "3,1/0,2", "--count", "2",
                     "--transport", transport});
    };
    const auto result = apart("inproc");
    CHECK(result["groups"][0]["ranks"] == std::vector{3, 1});
    for (const std::string transport : {"shm", "tcp"})
      CHECK(apart(transport)["after"] == result["after"]);
    if (operation.name == "all_reduce") {
      CHECK(result["after"][1] == std::vector{40, 42});
      CHECK(result["after"][2] == std::vector{20, 22});
    }
    if (operation.name == "broadcast") CHECK(result["after"][1] == std::vector{30, 31});
  }
}

TEST_CASE("cc-show call: groups and splits are told to people", "[show][golden]") {
  CHECK(said({"call", "all_to_all", "-n", "2", "--splits", "1,2/0,3"}) ==
        "all_to_all_v of 1,2/0,3 int32, by pairwise, 2 ranks over inproc\n\n"
        "         before    after\n"
        "rank 0   0 1 2     0\n"
        "rank 1   10 11 12  1 2 10 11 12\n");
  CHECK(said({"call", "broadcast", "-n", "5", "--groups", "0,2/3,1", "--count", "2", "--root", "1",
              "--algo", "binomial"}) ==
        "broadcast of 2 int32, root 1, 5 ranks over inproc\n\n"
        "         before  after\n"
        "group 0,2, by binomial, its root is rank 2\n"
        "rank 0   0 1     20 21\n"
        "rank 2   20 21   20 21\n"
        "group 3,1, by binomial, its root is rank 1\n"
        "rank 3   30 31   10 11\n"
        "rank 1   10 11   10 11\n"
        "in no group: rank 4\n");
}

TEST_CASE("cc-show call: groups and splits that cannot be are refused", "[show]") {
  const auto split = [](const std::string& operation, const std::string& splits) {
    return refused({"call", operation, "-n", "3", "--splits", splits});
  };
  CHECK_THAT(split("all_gather_v", "1,2"),
             Contains("2 numbers in '1,2', expected one for each of"));
  CHECK_THAT(split("all_gather", "1,-2,0"), Contains("'-2' is not a number of elements"));
  CHECK_THAT(split("all_gather", "1,2,0/1,2,0"), Contains("only all_to_all_v has one for each"));
  CHECK_THAT(split("all_to_all", "1,2,0/1,2,0"), Contains("or one for each of 3 ranks"));
  CHECK_THAT(split("gather_v", "1,2,99999999999999999999"),
             Contains("is not a number of elements"));
  CHECK_THAT(split("gather_v", "1,2,1000000"), Contains("expected at most 100000"));
  CHECK_THAT(split("broadcast", "1,2,3"), Contains("broadcast has no blocks of different sizes"));
  CHECK_THAT(refused({"call", "scatter_v", "--count", "3"}), Contains("expected --splits"));
  const auto part = [](const std::string& groups) {
    return refused({"call", "reduce", "-n", "4", "--groups", groups, "--root", "1"});
  };
  CHECK_THAT(part("0,1/2,4"), Contains("'4' is not a rank from 0 to 3"));
  CHECK_THAT(part("0,1/1,2"), Contains("rank 1 is in it twice"));
  CHECK_THAT(part("0,1//2"), Contains("a group without ranks"));
  CHECK_THAT(part("0,x"), Contains("'x' is not a rank"));
  CHECK_THAT(part("0,1/2"), Contains("root 1 does not exist among 1 ranks (group 2)"));
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
             Contains("line 1: 'two' is not a number"));
}

TEST_CASE("cc-show call --buffers: each buffer gets what a call on it alone gives it",
          "[show][property]") {
  for (const std::string operation :
       {"all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter"}) {
    for (const std::string groups : {"0,1,2,3", "3,1/0,2"}) {
      CAPTURE(operation, groups);
      const auto call = [&](std::vector<std::string> words) {
        words.insert(words.begin(), {operation, "-n", "4", "--groups", groups});
        return called(std::move(words));
      };
      const auto result = call({"--buffers", "2,0,3"});
      CHECK(result["buffers"] == std::vector{2, 0, 3});
      // The second buffer continues where the first one's numbers end.
      const auto blocks =
          operation == "reduce_scatter" ? groups.find('/') == groups.npos ? 4 : 2 : 1;
      const auto first = call({"--count", "2"});
      const auto second = call({"--count", "3", "--in", fmt::format("10*r+i+{}", 2 * blocks)});
      for (std::size_t rank = 0; rank < 4; rank++) {
        CAPTURE(rank);
        for (const std::string side : {"before", "after"})
          CHECK(result[side][rank] ==
                nlohmann::json{first[side][rank], nlohmann::json::array(), second[side][rank]});
      }
    }
  }
}

TEST_CASE("cc-show call --chain: each rank gets what the first one sent, and no other one",
          "[show]") {
  for (const std::string transport : {"inproc", "shm", "tcp"}) {
    const auto result = called(
        {"send_recv", "-n", "7", "--chain", "4,0,2/1,6", "--count", "3", "--transport", transport});
    CHECK(result["op"] == "chain");
    CHECK(result["before"][4] == std::vector{40, 41, 42});
    CHECK(result["before"][2].empty());
    for (const std::size_t rank : {0, 2}) CHECK(result["after"][rank] == result["before"][4]);
    CHECK(result["after"][6] == std::vector{10, 11, 12});
    for (const std::size_t rank : {1, 3, 4, 5}) CHECK(result["after"][rank].empty());
  }
}

TEST_CASE("cc-show call OP,OP: calls as one give what each gives alone", "[show][property]") {
  const std::vector<std::string> names = {"all_reduce", "all_gather", "send_recv",
                                          "barrier",    "all_reduce", "scatter"};
  for (const std::string groups : {"0,1,2,3", "3,1/0,2"}) {
    const auto together =
        called({fmt::format("{}", fmt::join(names, ",")), "-n", "4", "--groups", groups});
    REQUIRE(together["calls"].size() == names.size());
    for (std::size_t i = 0; i < names.size(); i++) {
      CAPTURE(groups, names[i]);
      CHECK(together["calls"][i] == called({names[i], "-n", "4", "--groups", groups}));
    }
  }
}

TEST_CASE("cc-show call: lists of buffers, chains and several calls are told to people",
          "[show][golden]") {
  CHECK(said({"call", "all_gather", "-n", "2", "--buffers", "1,2", "--algo", "ring"}) ==
        "all_gather of buffers of 1, 2 int32 in each block, by ring, 2 ranks over inproc\n\n"
        "         before      after\n"
        "rank 0   0 | 1 2     0 10 | 1 2 11 12\n"
        "rank 1   10 | 11 12  0 10 | 1 2 11 12\n");
  CHECK(said({"call", "send_recv", "-n", "4", "--chain", "3,0,1", "--count", "2"}) ==
        "chain of 2 int32, 4 ranks over inproc\n\n"
        "         before  after\n"
        "chain 3,0,1\n"
        "rank 3   30 31   -\n"
        "rank 0   -       30 31\n"
        "rank 1   -       30 31\n"
        "in no chain: rank 2\n");
  CHECK(said({"call", "all_reduce,broadcast", "-n", "2", "--count", "1", "--algo", "tree"}) ==
        "2 calls as one (between group_begin and group_end)\n\n"
        "all_reduce of 1 int32, sum, by tree, 2 ranks over inproc\n\n"
        "         before  after\n"
        "rank 0   0       10\n"
        "rank 1   10      10\n\n"
        "broadcast of 1 int32, root 0, by tree, 2 ranks over inproc\n\n"
        "         before  after\n"
        "rank 0   0       0\n"
        "rank 1   10      0\n");
}

TEST_CASE("cc-show call: lists, chains and calls that cannot be are refused", "[show]") {
  const auto call = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"call", "-n", "4"});
    return refused(words);
  };
  CHECK_THAT(call({"all_to_all", "--buffers", "1,2"}),
             Contains("--buffers 1,2: all_to_all takes no list of buffers; expected all_reduce"));
  CHECK_THAT(call({"all_gather_v", "--buffers", "1"}), Contains("all_gather_v takes no list"));
  CHECK_THAT(call({"all_reduce", "--buffers", "1,x"}), Contains("'x' is not a number of elements"));
  CHECK_THAT(call({"all_reduce", "--buffers", "1,,2"}), Contains("a comma without a number"));
  CHECK_THAT(call({"all_reduce", "--buffers", "1", "--count", "2"}),
             Contains("--count 2 and --buffers 1: expected one of them"));
  CHECK_THAT(call({"all_gather", "--buffers", "1", "--splits", "2"}),
             Contains("--splits 2 and --buffers 1: expected one of them"));
  CHECK_THAT(call({"all_reduce", "--buffers", "50000,1"}), Contains("expected at most 100000"));
  CHECK_THAT(call({"all_reduce", "--chain", "0,1"}),
             Contains("--chain 0,1: all_reduce does not hand messages on; expected send_recv"));
  CHECK_THAT(call({"send_recv", "--chain", "0,1", "--groups", "0,1"}),
             Contains("--chain 0,1 and --groups 0,1: expected one of them"));
  CHECK_THAT(call({"send_recv", "--chain", "0,1/2"}), Contains("a chain of rank 2 alone"));
  CHECK_THAT(call({"send_recv", "--chain", "0,1/1,2"}), Contains("rank 1 is in it twice"));
  CHECK_THAT(call({"send_recv", "--chain", "0,4"}), Contains("'4' is not a rank from 0 to 3"));
  CHECK_THAT(call({"send_recv", "--chain", "0,1//2,3"}), Contains("a chain without ranks"));
  CHECK_THAT(call({"send_recv,barrier", "--chain", "0,1"}), Contains("expected one operation"));
  CHECK_THAT(call({"all_reduce,all_to_al"}), Contains("did you mean all_to_all?"));
  CHECK_THAT(call({"all_reduce,all_to_all", "--algo", "ring"}),
             Contains("no all_to_all algorithm 'ring'"));
  CHECK_THAT(call({","}), Contains("no operation given"));
}

TEST_CASE("cc-show call: the table is for people", "[show][golden]") {
  CHECK(said({"call", "all_reduce", "-n", "3", "--algo", "ring", "--count", "2"}) ==
        "all_reduce of 2 int32, sum, by ring, 3 ranks over inproc\n\n"
        "         before  after\n"
        "rank 0   0 1     30 33\n"
        "rank 1   10 11   30 33\n"
        "rank 2   20 21   30 33\n");
}

TEST_CASE("cc-show call: a reduce has a result at its root alone", "[show][unit]") {
  CHECK(said({"call", "reduce", "-n", "3", "--root", "1", "--count", "2", "--algo", "binomial"}) ==
        "reduce of 2 int32, sum, root 1, by binomial, 3 ranks over inproc\n\n"
        "         before  after\n"
        "rank 0   0 1     -\n"
        "rank 1   10 11   30 33\n"
        "rank 2   20 21   -\n");
}

TEST_CASE("cc-show call: what cannot be is refused", "[show]") {
  CHECK_THAT(refused({"call"}), Contains("no operation given"));
  CHECK_THAT(refused({"call", "all_reduce", "--type", "foo"}),
             Contains("'--type' is not expected: did you mean --dtype?"));
  CHECK_THAT(refused({"call", "all_to_al"}), Contains("did you mean all_to_all?"));
  CHECK_THAT(refused({"call", "all_reduce", "--in", "r+"}), Contains("column 3: found the end"));
  CHECK_THAT(refused({"call", "all_reduce", "--in", "300", "--dtype", "int8"}),
             Contains("element 0 is 300, which int8 does not hold"));
  CHECK_THAT(refused({"call", "all_reduce", "--count", "100001"}), Contains("at most 100000"));
  CHECK_THAT(refused({"call", "reduce", "--root", "4"}), Contains("root 4 does not exist"));
  CHECK_THAT(refused({"call", "all_reduce", "--in", "/"}), Contains("/: Is a directory"));
  CHECK_THAT(refused({"call", "all_reduce", "--in", "/dev/null"}), Contains("it is empty"));
  CHECK_THAT(refused({"call", "all_reduce", "--in", "/dev/zero"}),
             Contains("/dev/zero: it is longer than 16M bytes"));
  CHECK_THAT(refused({"call", "all_reduce", "--algo", "rign"}), Contains("did you mean ring?"));
  CHECK_THAT(refused({"call", "all_reduce", "--transport", "ib"}), Contains("no transport 'ib'"));
  CHECK_THAT(refused({"call", "all_reduce", "--algo", "bruck"}),
             Contains("no all_reduce algorithm 'bruck'"));
}

}  // namespace
}  // namespace ccoll::show::test
