// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "bench/command/matrix.hpp"
#include "bench/report/baseline.hpp"
#include "bench/report/chart.hpp"
#include "bench/report/page.hpp"
#include "bench/report/row.hpp"
#include "bench/report/verdict.hpp"

using namespace ccoll;
using namespace ccoll::bench;

namespace {

Row make_row(const std::string& op, std::uint64_t bytes, double usec, double busbw = 1) {
  Row row;
  row.op = op;
  row.ranks = 4;
  row.bytes = bytes;
  row.type = "float32";
  row.algorithm = "ring";
  row.transport = "tcp";
  row.timing = summarise({usec}, {});
  row.busbw = busbw;
  row.wrong = 0;
  return row;
}

nlohmann::json make_document(const std::vector<Row>& rows) {
  nlohmann::json document = {{"version", "0"},        {"host", "node<1>"},
                             {"processor", "a & b"},  {"ranks", 4},
                             {"transport", "tcp"},    {"cores_usable", 2},
                             {"time", "never"},       {"label", "\"x\""},
                             {"command", "cc-bench"}, {"verdict", {"FAILED: <slow>"}}};
  document["rows"] = nlohmann::json::array();
  for (const Row& row : rows) document["rows"].push_back(row_json(row));
  return document;
}

/// A test file with `text` in it, removed with this.
class TextFile {
 public:
  explicit TextFile(const std::string& text) {
    ::close(::mkstemp(path_.data()));
    std::ofstream(path_) << text;
  }
  ~TextFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/ccoll_bench_XXXXXX";
};

Baseline load(const std::vector<Row>& rows) {
  const TextFile file(make_document(rows).dump());
  auto baseline = Baseline::load(file.path());
  REQUIRE(baseline.has_value());
  return *baseline;
}

std::string text_of(const Verdict& verdict) {
  std::string text;
  for (const std::string& line : verdict.lines()) text += line + "\n";
  return text;
}

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    count++;
  }
  return count;
}

}  // namespace

TEST_CASE("a row within the tolerance is good, one beyond it fails and is named", "[bench][unit]") {
  const std::vector<Row> old = {make_row("all_reduce", 1024, 100), make_row("broadcast", 8, 10)};
  Verdict verdict({20, 0}, load(old));
  Row within = make_row("all_reduce", 1024, 119);
  verdict.add(within);
  CHECK(within.baseline_usec == 100);
  CHECK(verdict.is_good());
  Row beyond = make_row("broadcast", 8, 12.5);
  verdict.add(beyond);
  CHECK_FALSE(verdict.is_good());
  CHECK(text_of(verdict).find("FAILED: broadcast 8 float32, 4 ranks: 12.50 us, 1.25 times the "
                              "10.00 us of the baseline (--tolerance 20 %)") != std::string::npos);
}

TEST_CASE("rows are the same when everything but transport and time agrees", "[bench][unit]") {
  const Row row = make_row("reduce", 64, 5);
  Row other = row;
  other.transport = "inproc";
  other.algorithm = "tree";
  CHECK(row_key(other) == row_key(row));
  const auto differs = [&](auto change) {
    Row changed = row;
    change(changed);
    return row_key(changed) != row_key(row);
  };
  CHECK(differs([](Row& r) { r.bytes = 128; }));
  CHECK(differs([](Row& r) { r.ranks = 5; }));
  CHECK(differs([](Row& r) { r.type = "int32"; }));
  CHECK(differs([](Row& r) { r.reduce_op = "max"; }));
  CHECK(differs([](Row& r) { r.root = 0; }));
  CHECK(differs([](Row& r) { r.in_place = true; }));
  CHECK(differs([](Row& r) { r.fresh = true; }));
  CHECK(differs([](Row& r) { r.forced = "ring"; }));
}

TEST_CASE("rows that only one side has are named, and no common row is a failure",
          "[bench][unit]") {
  Verdict verdict({10, 0}, load({make_row("gather", 8, 1), make_row("scatter", 8, 1)}));
  Row fresh = make_row("barrier", 8, 1);
  verdict.add(fresh);
  CHECK_FALSE(fresh.baseline_usec.has_value());
  CHECK_FALSE(verdict.is_good());
  Row known = make_row("gather", 8, 1);
  verdict.add(known);
  CHECK(verdict.is_good());
  const std::string text = text_of(verdict);
  CHECK(text.find("not in the baseline: barrier 8 float32") != std::string::npos);
  CHECK(text.find("only in the baseline: scatter 8 float32") != std::string::npos);
}

TEST_CASE("a file that is no baseline is refused by name", "[bench][unit]") {
  CHECK(Baseline::load("/proc/nonexistent/old.json")
            .error()
            .message.find("/proc/nonexistent/old.json") != std::string::npos);
  CHECK(Baseline::load("/tmp").error().message == "cannot read /tmp: Is a directory");
  for (const char* text : {"", "{", "[]", "{\"rows\": []}", "label,op,ranks\n",
                           "{\"version\":\"0\",\"host\":\"a\",\"ranks\":1,\"transport\":\"t\","
                           "\"rows\":[{\"op\":3}]}"}) {
    CAPTURE(text);
    const TextFile file(text);
    const auto baseline = Baseline::load(file.path());
    REQUIRE_FALSE(baseline.has_value());
    CHECK(baseline.error().message.find(file.path()) != std::string::npos);
    CHECK(baseline.error().message.find("json.exception") == std::string::npos);
  }
}

TEST_CASE("the least bus bandwidth is of the average, over rows with data", "[bench][unit]") {
  Verdict verdict({10, 2}, std::nullopt);
  Row barrier = make_row("barrier", 0, 1, 0);
  Row slow = make_row("all_reduce", 8, 1, 1);
  Row fast = make_row("all_reduce", 16, 1, 3);
  for (Row* row : {&barrier, &slow}) verdict.add(*row);
  CHECK_FALSE(verdict.is_good());
  CHECK(text_of(verdict).find("below the 2 GB/s of --min-busbw") != std::string::npos);
  verdict.add(fast);
  CHECK(verdict.average_busbw() == 2);
  CHECK(verdict.is_good());
}

TEST_CASE("one wrong element is a failure", "[bench][unit]") {
  Verdict verdict({}, std::nullopt);
  Row row = make_row("all_reduce", 8, 1);
  row.wrong = 1;
  verdict.add(row);
  CHECK_FALSE(verdict.is_good());
}

TEST_CASE("an algorithm has one colour and dash on all pages", "[bench][unit]") {
  const auto look_of = [](const std::vector<std::string>& names, std::size_t number) {
    const std::string legend = chart_legend(names);
    std::vector<ChartSeries> series;
    for (const std::string& name : names) series.push_back({name, {{8, 1, "a point"}}});
    const std::string key = fmt::format("value=\"n{}\"", number);
    const std::string box = legend.substr(legend.find(key));
    const std::size_t begin = box.find("class=\"series ") + 14;
    const std::string look = box.substr(begin, box.find('"', begin) - begin);
    // The lines look as in the legend.
    CHECK(chart(series, "t", "us").find(fmt::format("series n{} {}\"", number, look)) !=
          std::string::npos);
    return look;
  };
  CHECK(look_of({"ring", "tree"}, 0) == look_of({"tree", "two_shot", "ring"}, 2));
  CHECK(look_of({"tree", "ring"}, 0) == look_of({"all_reduce tree"}, 0));
  CHECK(look_of({"ring", "tree"}, 0) != look_of({"ring", "tree"}, 1));
  // Two series by one algorithm have different looks.
  const std::vector<std::string> twice = {"all_reduce float32 ring", "all_reduce int8 ring"};
  CHECK(look_of(twice, 0) != look_of(twice, 1));
  std::set<std::string> looks;
  std::vector<std::string> many;
  for (int i = 0; i < 20; ++i) many.push_back(fmt::format("operation {}", i));
  for (std::size_t i = 0; i < many.size(); ++i) looks.insert(look_of(many, i));
  CHECK(looks.size() == many.size());
}

TEST_CASE("the page draws a mark per row and chart, and shows every row in its table",
          "[bench][unit]") {
  std::vector<Row> rows;
  for (const std::uint64_t bytes : {0, 8, 64, 1024}) {
    rows.push_back(make_row("all_reduce", bytes, 10 + double(bytes), bytes > 0 ? 0.5 : 0));
    rows.push_back(make_row("broadcast", bytes, 20, bytes > 0 ? 2 : 0));
  }
  rows.push_back(make_row("barrier", 0, 5, 0));
  const std::string text = page(make_document(rows));
  CHECK(times(text, "<circle ") == 2 * 6);
  CHECK(times(text, "<th scope=\"row\">") == rows.size());
  CHECK(times(text, "<svg viewBox=\"0 0 440") == 2);
  CHECK(text.find("node&lt;1&gt;") != std::string::npos);
  CHECK(text.find("a &amp; b") != std::string::npos);
  CHECK(text.find("node<1>") == std::string::npos);
  CHECK(text.find("http") == text.find("http://www.w3.org/1999/xhtml"));
  CHECK(times(text, "http") == 1);
}

TEST_CASE("lines of one operation are told apart by what differs between its rows",
          "[bench][unit]") {
  Row ring = make_row("all_reduce", 8, 1);
  ring.forced = "ring";
  Row tree = make_row("all_reduce", 8, 2);
  tree.forced = "tree";
  const std::string text = page(make_document({ring, tree}));
  CHECK(text.find("all_reduce ring</label>") != std::string::npos);
  CHECK(text.find("all_reduce tree</label>") != std::string::npos);
  CHECK(text.find("float32</label>") == std::string::npos);
}

TEST_CASE("a page without any row that can be drawn says so", "[bench][unit]") {
  const std::string text = page(make_document({make_row("barrier", 0, 5, 0)}));
  CHECK(times(text, "Nothing to draw") == 2);
  CHECK(times(page(make_document({})), "<circle") == 0);
}

TEST_CASE("the slow link of a matrix is marked and named, and nothing else", "[bench][unit]") {
  Matrix matrix(5);
  for (int from = 0; from < 5; from++) {
    for (int to = 0; to < 5; to++) {
      matrix.latency_us.at(from, to) = 10 + (from + to) % 3;
      matrix.bandwidth.at(from, to) = 2;
    }
  }
  CHECK(matrix_text(matrix).find('!') == std::string::npos);
  CHECK(matrix_text(matrix).find("no link is 1.5 times slower") != std::string::npos);
  matrix.latency_us.at(1, 3) = matrix.latency_us.at(3, 1) = 40;
  matrix.bandwidth.at(4, 2) = 0.5;
  const std::string text = matrix_text(matrix);
  CHECK(times(text, "!") == 3);
  CHECK(times(text, "# slow:") == 2);
  CHECK(text.find("# slow: 1 <-> 3: a latency of 40.00 us") != std::string::npos);
  CHECK(text.find("# slow: 4 -> 2: a bandwidth of 0.500 GB/s, typical is 2.000") !=
        std::string::npos);
  CHECK(matrix_json(matrix).at("slow").size() == 3);
}

TEST_CASE("links between hosts are not slow for being slower than links inside", "[bench][unit]") {
  PairTable latency(4);
  const std::vector<std::int64_t> hosts = {7, 7, 9, 9};
  for (int from = 0; from < 4; from++) {
    for (int to = 0; to < 4; to++) latency.at(from, to) = from / 2 == to / 2 ? 5 : 50;
  }
  CHECK(find_slow(latency, hosts, false).empty());
  latency.at(0, 3) = 90;
  REQUIRE(find_slow(latency, hosts, false).size() == 1);
  CHECK(find_slow(latency, hosts, false)[0].to == 3);
  CHECK(find_slow(latency, hosts, false)[0].typical == 50);
}
