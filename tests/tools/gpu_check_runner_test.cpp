// SPDX-License-Identifier: Apache-2.0
// What becomes of phases that end well, fail, crash, hang or are cut: shells take their place.
#include <signal.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "report.hpp"
#include "runner.hpp"
#include "support/directory.hpp"

using namespace ccoll::gpu_check;
using std::chrono::seconds;

namespace {

Phase phase(const std::string& name, const std::string& script, seconds limit = seconds(60)) {
  return {name, limit, {"/bin/sh", "-c", script}};
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Gone, or nothing but a name that nobody has asked for.
bool is_dead(const std::string& process) {
  const std::string stat = text_of("/proc/" + process + "/stat");
  const auto name_end = stat.rfind(')');
  return name_end == std::string::npos || stat[name_end + 2] == 'Z';
}

std::vector<Ending> run(const ccoll::testing::Directory& directory,
                        const std::vector<Phase>& phases, seconds budget = seconds(60),
                        std::vector<std::string> only = {}) {
  return run_phases(phases, {directory.path() + "/out", budget, std::move(only)});
}

}  // namespace

TEST_CASE("gpu-check: each phase is what it says of itself, with its last line", "[tools]") {
  const ccoll::testing::Directory directory;
  const auto endings =
      run(directory,
          {phase("good", "echo first; echo 12 of 12"), phase("bad", "echo one is wrong; exit 1"),
           phase("odd", "echo usage; exit 2"), phase("crash", "echo so far; kill -SEGV $$")});
  REQUIRE(endings.size() == 4);
  CHECK(endings[0].outcome == Outcome::passed);
  CHECK(endings[0].said == "12 of 12");
  CHECK(endings[1].outcome == Outcome::wrong);
  CHECK(endings[1].said == "one is wrong");
  CHECK(endings[2].outcome == Outcome::wrong);
  CHECK(endings[2].said == "ended with status 2: usage");
  CHECK(endings[3].outcome == Outcome::wrong);
  CHECK(endings[3].said.starts_with("killed by signal 11"));
  CHECK(status_of(endings) == kWrong);
  CHECK(text_of(directory.path() + "/out/good.log") == "first\n12 of 12\n");
  CHECK(table(endings).ends_with("1 passed, 3 wrong, 0 incomplete\n"));
}

TEST_CASE("gpu-check: a phase that hangs is wrong, and nothing of it is left", "[tools]") {
  const ccoll::testing::Directory directory;
  const std::string file = directory.path() + "/process";
  const auto endings =
      run(directory,
          {phase("hangs", "sleep 300 & echo $! >" + file + "; echo waiting; wait", seconds(5)),
           phase("next", "true")});
  CHECK(endings[0].outcome == Outcome::wrong);
  CHECK(endings[0].said == "did not end within 5 s; it had said: waiting");
  CHECK(endings[1].outcome == Outcome::passed);
  std::string process = text_of(file);
  REQUIRE_FALSE(process.empty());
  process.pop_back();
  for (int i = 0; i < 500 && !is_dead(process); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(is_dead(process));
}

TEST_CASE("gpu-check: what the time does not suffice for is incomplete", "[tools]") {
  const ccoll::testing::Directory directory;
  const auto endings =
      run(directory, {phase("first", "true"), phase("cut", "sleep 300"), phase("late", "true")},
          seconds(6));
  CHECK(endings[0].outcome == Outcome::passed);
  CHECK(endings[1].outcome == Outcome::incomplete);
  CHECK(endings[1].said == "all time is used up");
  CHECK(endings[2].outcome == Outcome::incomplete);
  CHECK(endings[2].said == "no time left");
  CHECK(status_of(endings) == kPassed);
  CHECK(table(endings).ends_with("1 passed, 0 wrong, 2 incomplete\n"));
}

TEST_CASE("gpu-check: told to stop it ends its phase and still makes its table", "[tools]") {
  const ccoll::testing::Directory directory;
  const auto endings =
      run(directory, {phase("told", "kill -TERM $PPID; sleep 300"), phase("late", "true")});
  CHECK(endings[0].outcome == Outcome::incomplete);
  CHECK(endings[0].said == "told to stop");
  CHECK(endings[1].said == "told to stop");
  // Nothing was found wrong, but nothing was shown either.
  CHECK(status_of(endings) == kWrong);
}

TEST_CASE("gpu-check: phases that lack something, or are not asked for, never pass", "[tools]") {
  const ccoll::testing::Directory directory;
  const auto endings = run(directory,
                           {phase("one", "true"), phase("two", "echo there is no tool; exit 78"),
                            phase("three", "true")},
                           seconds(60), {"two", "three"});
  CHECK(endings[0].outcome == Outcome::incomplete);
  CHECK(endings[0].said == "not asked for");
  CHECK(endings[1].outcome == Outcome::incomplete);
  CHECK(endings[1].said == "there is no tool");
  CHECK(endings[2].outcome == Outcome::passed);
  CHECK(status_of(endings) == kPassed);
}

TEST_CASE("gpu-check: without a device the rest is left out", "[tools]") {
  const ccoll::testing::Directory directory;
  const auto endings =
      run(directory, {phase("probe", "echo no GPU; exit 77"), phase("rest", "true")});
  CHECK(endings[0].outcome == Outcome::no_device);
  CHECK(endings[0].said == "no GPU");
  CHECK(endings[1].said == "no device");
  CHECK(status_of(endings) == kNoDevice);
  CHECK(table(endings).ends_with("0 passed, 0 wrong, 2 incomplete\n"));
}

TEST_CASE("gpu-check: a result is in the file before the next phase begins", "[tools]") {
  const ccoll::testing::Directory directory;
  const std::string file = directory.path() + "/out/results.jsonl";
  const auto endings =
      run(directory, {phase("one", "echo done"),
                      phase("two", "grep -q '\"outcome\":\"passed\",\"phase\":\"one\"' " + file)});
  CHECK(endings[1].outcome == Outcome::passed);
}

TEST_CASE("gpu-check: what cannot be written down has not passed, and the disk is named",
          "[tools]") {
  const ccoll::testing::Directory directory;
  const std::string out = directory.path() + "/out";
  std::filesystem::create_directory(out);
  SECTION("results") {
    std::filesystem::create_symlink("/dev/full", out + "/results.jsonl");
    const auto endings = run(directory, {phase("one", "true"), phase("two", "true")});
    for (const Ending& each : endings) {
      CHECK(each.outcome == Outcome::incomplete);
      CHECK(each.said == "cannot write " + out + "/results.jsonl: No space left on device");
    }
    CHECK(status_of(endings) == kWrong);
  }
  SECTION("what a phase prints") {
    std::filesystem::create_directory(out + "/one.log");
    const auto endings = run(directory, {phase("one", "true"), phase("two", "true")});
    CHECK(endings[0].outcome == Outcome::incomplete);
    CHECK(endings[0].said == "cannot write " + out + "/one.log: Is a directory");
    CHECK(endings[1].outcome == Outcome::passed);
  }
}

TEST_CASE("gpu-check: the report has all phases, and figures with their targets", "[tools]") {
  using nlohmann::json;
  const std::vector<Ending> endings = {{"teams", Outcome::passed, "0 of 3 calls wrong", 12.4},
                                       {"faults", Outcome::incomplete, "no time left", 0}};
  const std::vector<json> records = {
      {{"what", "begin"}},
      {{"what", "device"}, {"name", "GPU X"}, {"compute", "9.0"}, {"driver", 1}, {"runtime", 2}},
      {{"what", "figure"}, {"name", "copy"}, {"bytes", 2e9}, {"median_s", 0.5}},
      {{"what", "result"}, {"name", "a"}, {"measured", 1.2}, {"unit", "b"}, {"target", 1.3}},
      {{"what", "result"}, {"name", "c"}, {"measured", 1.4}, {"unit", "b"}, {"target", 1.3}},
      {{"what", "result"},
       {"name", "d"},
       {"measured", 0.8},
       {"unit", "e"},
       {"target", 0.9},
       {"is_least", true}},
      {{"what", "result"}, {"name", "f"}, {"measured", 3}, {"unit", "g"}},
      {{"what", "all_reduce by ring"},
       {"ranks", 2},
       {"bytes", 8},
       {"seconds", 1e-5},
       {"to_bound", 0.5}}};
  CHECK(report("2000-01-01", endings, records) ==
        "## 2000-01-01: GPU X, compute 9.0, driver 1, runtime 2\n"
        "\n"
        "| phase | outcome | s | |\n"
        "|---|---|---|---|\n"
        "| teams | passed | 12 | 0 of 3 calls wrong |\n"
        "| faults | incomplete | 0 | no time left |\n"
        "\n"
        "| figure | measured | target |\n"
        "|---|---|---|\n"
        "| copy | 4.0 GB/s | |\n"
        "| a | 1.200 × b | at most 1.3: met |\n"
        "| c | 1.400 × b | at most 1.3: missed |\n"
        "| d | 0.800 × e | at least 0.9: missed |\n"
        "| f | 3.000 × g |  |\n"
        "| all_reduce of 2 processes, 8 B | 10.0 µs | 0.50 of the most: met |\n");
  CHECK(figures(records, 2) ==
        "| copy | 4.0 GB/s | |\n"
        "| a | 1.200 × b | at most 1.3: met |\n"
        "4 more figures are in table.md\n");
}

TEST_CASE("gpu-check: the report of a machine without a GPU says so", "[tools]") {
  const std::vector<Ending> endings = {{"probe", Outcome::no_device, "no driver", 0}};
  CHECK(report("2000-01-01", endings, {}).starts_with("## 2000-01-01: no GPU\n"));
}

TEST_CASE("gpu-check: a report is of its own run, whatever lines a cut one left", "[tools]") {
  const ccoll::testing::Directory directory;
  const std::string path = directory.path() + "/results.jsonl";
  std::ofstream(path) << "{\"a\":1}\n{\"b\":\n[2]\n{\"c\":3}\n";
  CHECK(read_records(path, 0).size() == 2);
  const auto later = read_records(path, 8);
  REQUIRE(later.size() == 1);
  CHECK(later[0].value("c", 0) == 3);
  CHECK(read_records(path + ".none", 0).empty());
}
