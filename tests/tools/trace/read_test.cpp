// SPDX-License-Identifier: Apache-2.0
#include "trace/read.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <random>

#include "samples.hpp"

using namespace ccoll;
using namespace ccoll::trace;

namespace {

void append(std::string& bytes, const void* data, std::size_t size) {
  bytes.append(static_cast<const char*>(data), size);
}

void append_text(std::string& bytes, std::string text) {
  text.resize(filled_up(text.size()), ' ');
  bytes += text;
}

/// A trace without calls.
std::string beginning() {
  std::string bytes;
  FileHeader header;
  header.text_bytes = static_cast<std::uint32_t>(to_text(test::about()).size());
  append(bytes, &header, sizeof(header));
  append_text(bytes, to_text(test::about()));
  PlanEntry plan;
  plan.text_bytes = static_cast<std::uint32_t>(to_text(test::planned()).size());
  append(bytes, &plan, sizeof(plan));
  append_text(bytes, to_text(test::planned()));
  return bytes;
}

std::string sample() {
  auto bytes = beginning();
  for (const auto& call : test::calls(2)) {
    CallEntry begun;
    begun.sequence = call.sequence;
    begun.begin = call.begin;
    append(bytes, &begun, sizeof(begun));
    for (const auto& step : call.steps) {
      StepEntry entry;
      entry.sequence = static_cast<std::uint32_t>(call.sequence);
      entry.lane = step.lane;
      entry.step = step.step;
      entry.begin = step.begin;
      entry.moved = step.moved;
      entry.end = step.end;
      append(bytes, &entry, sizeof(entry));
    }
    EndEntry ended;
    ended.sequence = call.sequence;
    ended.end = *call.end;
    append(bytes, &ended, sizeof(ended));
  }
  return bytes;
}

std::string message_of(const Result<Trace>& trace) {
  REQUIRE_FALSE(trace);
  return trace.error().message;
}

}  // namespace

TEST_CASE("trace: cut short anywhere, what came before is read", "[trace][unit]") {
  const auto whole = sample();
  const auto header = beginning().size();
  for (std::size_t size = 0; size < whole.size(); size++) {
    CAPTURE(size);
    const auto trace = parse_trace("x", std::string_view(whole).substr(0, size));
    const auto text = filled_up(to_text(test::about()).size());
    if (size < kEntryBytes + text) {
      CHECK_THAT(message_of(trace), Catch::StartsWith("x: at byte 0: "));
      continue;
    }
    REQUIRE(trace);
    const bool at_entry =
        size == kEntryBytes + text || (size >= header && (size - header) % kEntryBytes == 0);
    CHECK(trace->remarks.empty() == at_entry);
    if (size < header) CHECK(trace->plans.empty());
    if (size >= header + 4 * kEntryBytes) CHECK(trace->calls[0].end.has_value());
  }
}

TEST_CASE("trace: ticks that stand still while nanoseconds pass are one moment", "[trace][unit]") {
  auto bytes = beginning();
  for (const std::uint64_t ns : {5'000'000, 9'000'000}) {
    ClockEntry clock;
    clock.ticks = 100;
    clock.ns = ns;
    append(bytes, &clock, sizeof(clock));
  }
  CallEntry call;
  call.begin = 100;
  append(bytes, &call, sizeof(call));
  const auto trace = parse_trace("x", bytes);
  REQUIRE(trace);
  CHECK(trace->calls[0].begin == 5'000'000);
}

TEST_CASE("trace: what cannot be is refused, with the byte where it stands", "[trace][unit]") {
  const auto start = beginning();
  const auto refused = [&](const auto& entry) {
    auto bytes = start;
    append(bytes, &entry, sizeof(entry));
    const auto message = message_of(parse_trace("x", bytes));
    CHECK_THAT(message, Catch::StartsWith(fmt::format("x: at byte {}: ", start.size())));
    return message;
  };
  CHECK_THAT(refused(StepEntry{}), Catch::Contains("a step of call 0, which has not begun"));
  CHECK_THAT(refused(EndEntry{}), Catch::Contains("the end of call 0, which has not begun"));
  CallEntry call;
  call.plan = 1;
  CHECK_THAT(refused(call), Catch::Contains("a call by plan 1 of 1"));
  MessageEntry message;
  message.peer = 3;
  CHECK_THAT(refused(message), Catch::Contains("rank 3 of 3"));
  message = {};
  message.begin = 1;
  CHECK_THAT(refused(message), Catch::Contains("ends before it begins"));
  PlanEntry plan;
  CHECK_THAT(refused(plan), Catch::Contains("plan 0, where plan 1 is expected"));
  plan.text_bytes = UINT32_MAX;
  CHECK_THAT(refused(plan), Catch::Contains("a text of 4294967295 bytes"));
  CHECK_THAT(message_of(parse_trace("x", "not a trace at all")),
             Catch::Contains("not a trace of ccoll"));
}

TEST_CASE("trace: times do not wrap round, and steps end one after another", "[trace][unit]") {
  CHECK(moved_by(5, -6) == 0);
  CHECK(moved_by(5, -5) == 0);
  CHECK(moved_by(5, 6) == 11);
  CHECK(moved_by(UINT64_MAX - 1, 6) == UINT64_MAX);
  CHECK(moved_by(UINT64_MAX, INT64_MIN) == UINT64_MAX / 2);
  // A call that began long before the clocks were read.
  auto bytes = beginning();
  for (const std::uint64_t at : {1, 2}) {
    ClockEntry clock;
    clock.ticks = 1'000'000'000 * at;
    clock.ns = 5'000'000 * at - 1'000'000;
    append(bytes, &clock, sizeof(clock));
  }
  CallEntry call;
  append(bytes, &call, sizeof(call));
  CHECK(parse_trace("x", bytes).value().calls[0].begin == 0);
  StepEntry step;
  for (const std::uint64_t end : {20, 19}) {
    step.end = end;
    append(bytes, &step, sizeof(step));
  }
  CHECK_THAT(message_of(parse_trace("x", bytes)),
             Catch::Contains("ends before the one that ended last"));
}

TEST_CASE("trace: what is no file, or too long a one, is not read", "[trace][unit]") {
  CHECK_THAT(message_of(read_trace("/")), Catch::Contains("cannot read /: it is not a file"));
  CHECK_THAT(message_of(read_trace("/dev/zero")), Catch::Contains("it is not a file"));
  CHECK_THAT(message_of(read_trace("/nowhere")), Catch::Contains("No such file"));
  auto path = (std::filesystem::temp_directory_path() / "ccoll-trace-XXXXXX").string();
  const int file = mkstemp(path.data());
  REQUIRE(file >= 0);
  const bool is_long = ftruncate(file, std::int64_t{3} << 30) == 0;
  close(file);
  if (is_long) CHECK_THAT(message_of(read_trace(path)), Catch::Contains("more than 2147483648"));
  std::filesystem::remove(path);
}

TEST_CASE("trace: sizes of blocks belong to a call that has such blocks", "[trace][unit]") {
  auto bytes = beginning();
  PlanEntry ragged;
  ragged.plan = 1;
  auto planned = test::planned();
  planned.problem.kind = Kind::all_gather;
  planned.ragged = true;
  ragged.text_bytes = static_cast<std::uint32_t>(to_text(planned).size());
  append(bytes, &ragged, sizeof(ragged));
  append_text(bytes, to_text(planned));
  const auto with = [&](std::uint32_t plan, const BlocksEntry& blocks) {
    auto longer = bytes;
    CallEntry call;
    call.plan = plan;
    append(longer, &call, sizeof(call));
    append(longer, &blocks, sizeof(blocks));
    return parse_trace("x", longer);
  };
  BlocksEntry blocks;
  blocks.counts = {3, 0, 1};
  const auto trace = with(1, blocks);
  REQUIRE(trace);
  CHECK(trace->calls[0].blocks == std::vector<BlockCounts>{{0, {3, 0, 1}}});
  CHECK_THAT(message_of(with(0, blocks)), Catch::Contains("without a call that has them"));
  blocks.counts[4] = kMostElements + 1;
  CHECK_THAT(message_of(with(1, blocks)), Catch::Contains("a block of more than"));
  blocks.counts[4] = 0;
  blocks.first = 5;
  CHECK_THAT(message_of(with(1, blocks)), Catch::Contains("sizes from block 5 on, of 3"));
  blocks.first = 1;
  CHECK_THAT(message_of(with(1, blocks)), Catch::Contains("sizes from block 1 on, of 3"));
}

TEST_CASE("trace: entries of kinds yet to come are passed over", "[trace][unit]") {
  auto bytes = sample();
  std::array<char, kEntryBytes> later{};
  later[0] = 77;
  append(bytes, later.data(), later.size());
  const auto trace = parse_trace("x", bytes);
  REQUIRE(trace);
  CHECK(trace->calls.size() == 2);
  REQUIRE(trace->remarks.size() == 1);
  CHECK_THAT(trace->remarks[0], Catch::Contains("1 entries of kinds"));
}

TEST_CASE("trace: texts say the same when they are read", "[trace][unit]") {
  CHECK(parse_about(to_text(test::about())).value() == test::about());
  CHECK(parse_planned(to_text(test::planned()), test::about()).value() == test::planned());
  const auto wrong = [](std::string_view from, std::string_view to) {
    auto text = to_text(test::about());
    text.replace(text.find(from), from.size(), to);
    return parse_about(text).error().message;
  };
  CHECK_THAT(wrong("rank 1", "rank 3"), Catch::Contains("'rank 3': expected a number from 0 to 2"));
  CHECK_THAT(wrong("size 3", "size 0"), Catch::Contains("'size 0'"));
  CHECK_THAT(wrong("host_of 0,1,1", "host_of 0,1"), Catch::Contains("'host_of'"));
  CHECK_THAT(wrong("host_of 0,1,1", "host_of 0,2,2"), Catch::Contains("without gaps"));
  CHECK_THAT(wrong("clock", "cluck"), Catch::Contains("no 'clock'"));
}

TEST_CASE("trace: random damage never leads to a crash", "[trace][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto whole = sample();
  for (int i = 0; i < 20'000; i++) {
    auto bytes = whole;
    for (auto changes = 1 + random() % 4; changes > 0; changes--)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    bytes.resize(random() % 8 == 0 ? random() % (bytes.size() + 1) : bytes.size());
    if (const auto trace = parse_trace("x", bytes)) {
      for (const auto& call : trace->calls) REQUIRE(call.plan < trace->plans.size());
    }
  }
}
