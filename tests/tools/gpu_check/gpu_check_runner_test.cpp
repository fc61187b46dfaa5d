// SPDX-License-Identifier: Apache-2.0
// The handling of phases that succeed, fail, crash, hang or are cut; shells play the phases.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <thread>

#include "gpu_check/report.hpp"
#include "gpu_check/runner.hpp"
#include "gpu_check/runs.hpp"
#include "support/differences.hpp"
#include "support/directory.hpp"

using namespace ccoll::gpu_check;
using ccoll::testing::differences;
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

/// Whether it has ended, including as a zombie.
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
  CHECK(endings[3].said.ends_with("it had said: so far"));
  const auto log = text_of(directory.path() + "/out/log.txt");
  CHECK(log.find(" ==\nfirst\n12 of 12\n== good: passed after ") != std::string::npos);
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
      run(directory,
          {phase("first", "true"), phase("cut", "echo begun; sleep 300"), phase("late", "true")},
          seconds(6));
  CHECK(endings[0].outcome == Outcome::passed);
  CHECK(endings[1].outcome == Outcome::incomplete);
  CHECK(endings[1].said == "all time is used up; it had said: begun");
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
  // No error was found, but nothing was shown, either.
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
    std::filesystem::create_directory(out + "/log.txt");
    const auto endings = run(directory, {phase("one", "true")});
    CHECK(endings[0].outcome == Outcome::incomplete);
    CHECK(endings[0].said == "cannot write " + out + "/log.txt: Is a directory");
  }
}

TEST_CASE("gpu-check: what a phase prints is printed as it comes, whatever becomes of it",
          "[tools]") {
  const ccoll::testing::Directory directory;
  const std::string seen = directory.path() + "/seen";
  // The phase succeeds only if its output was forwarded while it ran.
  std::fflush(stdout);
  const int before = dup(STDOUT_FILENO);
  REQUIRE(std::freopen(seen.c_str(), "w", stdout) != nullptr);
  const auto endings =
      run(directory, {phase("talks", "echo so far; for i in $(seq 500); do grep -q 'so far' " +
                                         seen + " && exit 0; sleep 0.02; done; exit 1")});
  std::fflush(stdout);
  dup2(before, STDOUT_FILENO);
  close(before);
  CHECK(endings[0].outcome == Outcome::passed);
}

TEST_CASE("gpu-check: a phase knows when to leave out what is left", "[tools]") {
  const ccoll::testing::Directory directory;
  const auto endings = run(directory, {phase("asks", std::string("echo $") + kUntil, seconds(40))});
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto until = std::chrono::nanoseconds(std::stoll(endings[0].said));
  CHECK(until > now);
  CHECK(until < now + seconds(31));
}

TEST_CASE("gpu-check: a GPU that works no more ends the run, one that recovers does not",
          "[tools]") {
  const ccoll::testing::Directory directory;
  const std::string out = directory.path() + "/out", file = directory.path() + "/broken";
  const auto health = [&](const std::string& script) {
    return RunOptions{out, seconds(60), {}, phase("health", script), std::chrono::milliseconds(1)};
  };
  const std::vector<Phase> phases = {
      phase("good", "true"), phase("bad", "touch " + file + "; exit 1"), phase("next", "true")};
  SECTION("no more") {
    const auto endings =
        run_phases(phases, health("if test -e " + file + "; then echo no copy; exit 1; fi"));
    REQUIRE(endings.size() == 5);
    CHECK(endings[0].phase == "health");
    CHECK(endings[0].outcome == Outcome::passed);
    CHECK(endings[2].outcome == Outcome::wrong);
    CHECK(endings[3].phase == "health after bad");
    CHECK(endings[3].outcome == Outcome::wrong);
    CHECK(endings[4].outcome == Outcome::incomplete);
    CHECK(endings[4].said == "the GPU does not work: no copy");
  }
  SECTION("after a while") {
    // The second health check succeeds.
    const auto endings =
        run_phases(phases, health("rm " + file + " 2>/dev/null && exit 1; exit 0"));
    REQUIRE(endings.size() == 4);
    CHECK(endings[3].outcome == Outcome::passed);
  }
  SECTION("never") {
    const auto endings = run_phases(phases, health("echo no copy; exit 1"));
    CHECK(endings[0].outcome == Outcome::wrong);
    for (std::size_t i = 1; i < endings.size(); i++)
      CHECK(endings[i].said == "the GPU does not work: no copy");
  }
  SECTION("well, and nothing else") {
    // Nothing was shown about ccoll.
    CHECK(status_of(run_phases({}, health("exit 0"))) == kWrong);
  }
  SECTION("none") {
    const auto endings = run_phases(phases, health("echo old driver; exit 77"));
    CHECK(status_of(endings) == kNoDevice);
    CHECK(endings[1].said == "no device");
  }
}

TEST_CASE("gpu-check: all endings so far are told after each", "[tools]") {
  const ccoll::testing::Directory directory;
  std::vector<std::size_t> told;
  RunOptions options{directory.path() + "/out", seconds(60)};
  options.told = [&](const std::vector<Ending>& endings) { told.push_back(endings.size()); };
  run_phases({phase("one", "true"), phase("two", "exit 1")}, options);
  CHECK(told == std::vector<std::size_t>{1, 2});
}

namespace {

const std::vector<nlohmann::json> kRecords = {
    {{"what", "begin"}, {"phase", "teams"}},
    {{"what", "device"},
     {"phase", "health"},
     {"name", "GPU X"},
     {"compute", "9.0"},
     {"driver", "1.2"},
     {"driver_cuda", "3.0"},
     {"runtime_cuda", "4.0"}},
    {{"what", "check"}, {"phase", "teams"}, {"name", "2 ranks"}, {"status", "passed"}},
    {{"what", "wrong"}, {"phase", "faults"}, {"said", "rank 1: found 2, expected 3"}},
    {{"what", "figure"}, {"phase", "teams"}, {"name", "copy"}, {"bytes", 2e9}, {"median_s", 0.5}},
    {{"what", "result"},
     {"phase", "teams"},
     {"name", "a"},
     {"measured", 1.2},
     {"unit", "b"},
     {"target", 1.3}},
    {{"what", "result"},
     {"phase", "teams"},
     {"name", "c"},
     {"measured", 1.4},
     {"unit", "b"},
     {"target", 1.3}},
    {{"what", "result"},
     {"phase", "teams"},
     {"name", "d"},
     {"measured", 0.8},
     {"unit", "e"},
     {"target", 0.9},
     {"is_least", true}},
    {{"what", "result"}, {"phase", "teams"}, {"name", "f"}, {"measured", 3}, {"unit", "g"}},
    {{"what", "all_reduce by ring"},
     {"phase", "teams"},
     {"ranks", 2},
     {"bytes", 8},
     {"seconds", 1e-5},
     {"to_bound", 0.5}}};

const RunFacts kFacts = {"a", "one", "run --out o", "1234abc", "2000-01-01 10:00:00 UTC", 7};

}  // namespace

TEST_CASE("gpu-check: a document has the run, the device and each phase's checks", "[tools]") {
  const std::vector<Ending> endings = {{"teams", Outcome::passed, "0 of 3 calls wrong", 12.4},
                                       {"faults", Outcome::wrong, "1 of 3", 1}};
  const auto made = document(kFacts, endings, kRecords);
  CHECK(made["run"] == "a");
  CHECK(made["commit"] == "1234abc");
  CHECK(made["command"] == "run --out o");
  CHECK(made["date"] == "2000-01-01 10:00:00 UTC");
  CHECK(made["seed"] == 7);
  CHECK(made["outcome"] == "WRONG");
  CHECK(made["device"]["driver"] == "1.2");
  REQUIRE(made["phases"].size() == 2);
  CHECK(made["phases"][0]["outcome"] == "passed");
  CHECK(made["phases"][0]["seconds"] == 12.4);
  CHECK(made["phases"][0]["checks"][0]["status"] == "passed");
  CHECK(made["phases"][0]["records"].size() == 6);
  CHECK(made["phases"][1]["wrong"][0]["said"] == "rank 1: found 2, expected 3");
}

TEST_CASE("gpu-check: the report has all phases, what is wrong, and figures with their targets",
          "[tools]") {
  const std::vector<Ending> endings = {{"teams", Outcome::passed, "0 of 3 calls wrong", 12.4},
                                       {"faults", Outcome::incomplete, "no time left", 0}};
  CHECK(report({document(kFacts, endings, kRecords)}) ==
        "## 2000-01-01: GPU X, compute 9.0, driver 1.2 for CUDA 3.0, runtime 4.0, commit 1234abc\n"
        "\n"
        "| run | phase | outcome | s | |\n"
        "|---|---|---|---|---|\n"
        "| a | teams | passed | 12 | 0 of 3 calls wrong |\n"
        "| a | faults | incomplete | 0 | no time left |\n"
        "\n"
        "Wrong:\n"
        "\n"
        "- faults: rank 1: found 2, expected 3\n"
        "\n"
        "| figure | measured | target |\n"
        "|---|---|---|\n"
        "| copy | 4.0 GB/s | |\n"
        "| a | 1.200 × b | at most 1.3: met |\n"
        "| c | 1.400 × b | at most 1.3: missed |\n"
        "| d | 0.800 × e | at least 0.9: missed |\n"
        "| f | 3.000 × g |  |\n"
        "| all_reduce of 2 processes, 8 B | 10.0 µs | 0.50 of the most: met |\n"
        "\n"
        "By:\n"
        "\n"
        "- a, 2000-01-01 10:00:00 UTC, seed 7: `run --out o`\n");
  CHECK(figures(kRecords, 2) ==
        "| copy | 4.0 GB/s | |\n"
        "| a | 1.200 × b | at most 1.3: met |\n"
        "4 more figures are in table.md\n");
}

TEST_CASE("gpu-check: the report of a machine without a GPU says so", "[tools]") {
  const std::vector<Ending> endings = {{"health", Outcome::no_device, "no driver", 0}};
  CHECK(report({document(kFacts, endings, {})}).starts_with("## 2000-01-01: no GPU, commit"));
  CHECK(report({}).empty());
}

TEST_CASE("differences: the first bytes that differ are named, found and expected", "[tools]") {
  const auto bytes = [](const std::string& text) { return std::as_bytes(std::span(text)); };
  const std::string right(100, 'a');
  std::string wrong = right;
  CHECK(differences(bytes(wrong), bytes(right)).empty());
  wrong[3] = 'b';
  CHECK(differences(bytes(wrong), bytes(right)) ==
        "1 of 100 bytes differ: byte 3: found 0x62, expected 0x61");
  for (std::size_t i = 90; i < 100; ++i) wrong[i] = 'c';
  const auto said = differences(bytes(wrong), bytes(right));
  CHECK(said.starts_with("11 of 100 bytes differ: byte 3: "));
  CHECK(said.ends_with("; byte 94: found 0x63, expected 0x61; … the last: byte 99"));
  CHECK(differences(bytes("a"), bytes(right)) == "1 bytes, expected 100");
}

TEST_CASE("gpu-check: no run takes more than four minutes, and all are in the plan", "[tools]") {
  for (const Run& each : all_runs()) {
    CHECK(each.limit_s <= 240);
    CHECK(plan().find(fmt::format("\n       {}  at most {} s: ", each.name, each.limit_s)) !=
          std::string::npos);
  }
  CHECK(all_runs()[0].phases[0] == "first");
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
