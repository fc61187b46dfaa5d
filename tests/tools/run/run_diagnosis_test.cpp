// SPDX-License-Identifier: Apache-2.0
// cc-run's diagnosis from a directory of dumps and the ranks' exit statuses, without any rank.
#include "run/diagnosis.hpp"

#include <signal.h>
#include <stdlib.h>

#include <catch2/catch.hpp>

#include "comm/record/dump/dump.hpp"
#include "support/directory.hpp"

namespace ccoll {
namespace {

using Lines = std::vector<std::string>;

constexpr auto kStarted = std::chrono::system_clock::time_point(std::chrono::seconds(1000));
constexpr std::int64_t kWhile = 1001 * 1'000'000'000LL;

class Directory : public testing::Directory {
 public:
  using testing::Directory::write;
  void write(const dump::Dump& dump) const {
    write("ccoll." + std::to_string(dump.rank) + ".dump.json", dump::to_json(dump));
  }
};

RankEnd end_of(int rank, int code, bool by_signal = false) {
  RankEnd end;
  end.rank = rank;
  end.process = 100 + rank;
  end.code = code;
  end.by_signal = by_signal;
  return end;
}

dump::Dump failed(std::uint32_t rank, std::int64_t at, const std::string& why) {
  dump::Dump dump;
  dump.job = dump.communicator = std::string("1");
  dump.name = std::string("world");
  dump.rank = dump.job_rank = rank;
  dump.size = 2;
  dump.host = std::string("b");
  dump.process = 100 + rank;
  dump.at = at;
  dump.failure = dump::Failed{"timed_out", why, {}};
  return dump;
}

}  // namespace

TEST_CASE("cc-run's diagnosis: nothing of a job that ended well, nor without dumps", "[tools]") {
  const Directory dumps;
  dumps.write(failed(0, kWhile, "late"));
  CHECK(diagnosis(dumps.path(), {end_of(0, 0), end_of(1, 0)}, kStarted).empty());
  CHECK(diagnosis(dumps.path() + "/nowhere", {end_of(0, 1)}, kStarted).empty());
  const Directory nothing;
  CHECK(diagnosis(nothing.path(), {end_of(0, 1)}, kStarted).empty());
}

TEST_CASE("cc-run's diagnosis: how ranks ended stands before what they said", "[tools]") {
  const Directory dumps;
  dumps.write(failed(0, kWhile, "late"));
  const auto told = [&](const std::vector<RankEnd>& ends) {
    return diagnosis(dumps.path(), ends, kStarted);
  };
  const std::string failure = "the first failure, on rank 0: timed_out: late";
  CHECK(told({end_of(0, 1), end_of(1, SIGSEGV, true)}) ==
        Lines{"rank 1 (process 101) was killed by SIGSEGV", failure});
  CHECK(told({end_of(0, 1), end_of(1, 3)}) ==
        Lines{"rank 1 (process 101) ended with status 3, and reported no failure", failure});
  // No signal has the number 250.
  CHECK(told({end_of(0, 1), end_of(1, 250, true)}) ==
        Lines{"rank 1 (process 101) was killed by 250", failure});
  auto ended_by_us = end_of(1, SIGTERM, true);
  ended_by_us.expected = true;
  CHECK(told({end_of(0, 1), ended_by_us}) == Lines{failure});
  ended_by_us.stopped = true;
  CHECK(told({end_of(0, 1), ended_by_us}) ==
        Lines{"rank 1 (process 101) is stopped, as by SIGSTOP: it neither computes nor answers",
              failure});
}

TEST_CASE("cc-run's diagnosis: dumps of an earlier job and files that are none count for nothing",
          "[tools]") {
  const Directory dumps;
  dumps.write(failed(1, 999 * 1'000'000'000LL, "yesterday"));
  dumps.write("broken.dump.json", "{\"ccoll_dump\": 1");
  dumps.write("notes.txt", "late");
  CHECK(diagnosis(dumps.path(), {end_of(0, 1)}, kStarted).empty());
  dumps.write(failed(0, kWhile, "today"));
  CHECK(diagnosis(dumps.path(), {end_of(0, 1)}, kStarted) ==
        Lines{"the first failure, on rank 0: timed_out: today"});
}

}  // namespace ccoll
