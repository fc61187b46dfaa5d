// SPDX-License-Identifier: Apache-2.0
#include "comm/record/trace/recorder.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "support/directory.hpp"
#include "tools/trace/samples.hpp"
#include "trace/read.hpp"

using namespace ccoll;
using namespace ccoll::trace;

using testing::Directory;

TEST_CASE("recorder: what was recorded is read again, whatever the buffer's size",
          "[trace][unit]") {
  const Directory directory;
  const auto path = directory.file("one.trace");
  for (const std::size_t buffer : {0, 100, 48 * 7, 1 << 20}) {
    CAPTURE(buffer);
    {
      auto recorder = Recorder::create(path, to_text(test::about()), buffer, false);
      REQUIRE(recorder);
      test::record_calls(**recorder, 40);
    }
    const auto trace = read_trace(path);
    REQUIRE(trace);
    CHECK(trace->about == test::about());
    CHECK(trace->remarks.empty());
    REQUIRE(trace->plans.size() == 1);
    CHECK(trace->plans[0] == test::planned());
    CHECK(trace->calls == test::calls(40));
    CHECK(trace->messages == std::vector{test::message()});
    // The last write is not recorded, because it ends the file.
    CHECK(!trace->writes.empty());
  }
}

TEST_CASE("recorder: what was written before a process is killed is there", "[trace][unit]") {
  const Directory directory;
  auto recorder =
      Recorder::create(directory.file("killed.trace"), to_text(test::about()), 4096, false);
  REQUIRE(recorder);
  test::record_calls(**recorder, 3);
  CHECK(read_trace(directory.file("killed.trace"))->calls.empty());
  (*recorder)->write_at_times(now());
  CHECK(read_trace(directory.file("killed.trace"))->calls.empty());
  (*recorder)->write_at_times(now() + 3'000'000'000);
  CHECK(read_trace(directory.file("killed.trace"))->calls.size() == 3);
}

TEST_CASE("recorder: ticks of the processor's counter are read as the clock's nanoseconds",
          "[trace][unit]") {
  const Directory directory;
  const auto path = directory.file("ticks.trace");
  std::vector<std::pair<std::uint64_t, std::uint64_t>> between;
  {
    auto recorder = Recorder::create(path, to_text(test::about()), 1000);
    REQUIRE(recorder);
    (*recorder)->add_plan(PlanEntry{}, to_text(test::planned()));
    for (std::uint64_t i = 0; i < 200; i++) {
      CallEntry begun;
      begun.sequence = i;
      between.emplace_back(now(), 0);
      begun.begin = (*recorder)->ticks();
      between.back().second = now();
      (*recorder)->add(begun);
    }
  }
  const auto trace = read_trace(path);
  REQUIRE(trace);
  REQUIRE(trace->calls.size() == between.size());
  // A thread may be descheduled between the readings of the two clocks.
  std::size_t near = 0;
  for (std::size_t i = 0; i < between.size(); i++)
    near += trace->calls[i].begin + 20'000 >= between[i].first &&
            trace->calls[i].begin <= between[i].second + 20'000;
  CHECK(near > between.size() / 2);
}

TEST_CASE("recorder: a forked child leaves its parent's trace alone", "[trace][unit]") {
  const Directory directory;
  const auto path = directory.file("forked.trace");
  {
    auto recorder = Recorder::create(path, to_text(test::about()));
    REQUIRE(recorder);
    test::record_calls(**recorder, 2);
    const auto child = fork();
    if (child == 0) {
      recorder->reset();
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(read_trace(path)->calls.empty());
  }
  CHECK(read_trace(path)->calls.size() == 2);
}

TEST_CASE("recorder: where nothing can be written it goes on, and says so once", "[trace][unit]") {
  CHECK_FALSE(Recorder::create("/nonexistent/x.trace", to_text(test::about())));
  // Writes to it fail like those to a full disk.
  auto recorder = Recorder::create("/dev/full", to_text(test::about()), 1000);
  REQUIRE(recorder);
  test::record_calls(**recorder, 100);
}
