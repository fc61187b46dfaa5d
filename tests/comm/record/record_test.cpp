// SPDX-License-Identifier: Apache-2.0
#include "comm/record/record.hpp"

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "comm/owned.hpp"
#include "dumps/read.hpp"
#include "support/directory.hpp"

namespace ccoll {
namespace {

using namespace std::chrono_literals;

const Record::Whose kWhose{0x10, 0x20, "world", 1, 3, 5};

Signature signature_of(std::uint64_t count) {
  Signature signature;
  signature.count = count;
  return signature;
}

/// The state of each call of a dump, by number.
std::vector<dump::State> states_of(const dump::Dump& made) {
  std::vector<dump::State> states;
  for (const auto& call : made.last_calls) states.push_back(call.state);
  return states;
}

/// A directory that CCOLL_DUMP names while this lives.
struct DumpsThere {
  testing::Directory directory;
  DumpsThere() { ::setenv("CCOLL_DUMP", directory.path().c_str(), 1); }
  ~DumpsThere() { ::unsetenv("CCOLL_DUMP"); }
};

}  // namespace

TEST_CASE("record: a dump says whose it is and lists the calls with their labels", "[comm][unit]") {
  Record record(kWhose);
  record.call_begins(kOwned, signature_of(7));
  record.labels().set(1, note_of("gradients", ""));
  record.call_begins(kOwned, signature_of(8));
  const auto made = record.dump_of_calls("asked");
  CHECK(made.job == "10");
  CHECK(made.communicator == "20");
  CHECK(made.name == "world");
  CHECK(std::tuple(made.rank, made.size, made.job_rank) == std::tuple(1U, 3U, 5U));
  CHECK(made.reason == "asked");
  CHECK(made.calls == 2);
  REQUIRE(made.last_calls.size() == 2);
  CHECK(made.last_calls[0].count == 7);
  CHECK(made.last_calls[0].label.empty());
  CHECK(made.last_calls[1].count == 8);
  CHECK(made.last_calls[1].label == "gradients");
  CHECK(made.last_calls[0].begun <= made.last_calls[1].begun);
  CHECK(made.last_calls[1].begun <= made.at);
}

TEST_CASE("record: only as many calls are listed as the history keeps", "[comm][unit]") {
  Record record(kWhose);
  for (std::uint64_t number = 0; number < History::kCalls + 3; number++)
    record.call_begins(kOwned, {});
  const auto made = record.dump_of_calls("asked");
  CHECK(made.calls == History::kCalls + 3);
  CHECK(made.last_calls.size() == History::kCalls);
  CHECK(made.last_calls.front().number == 3);
}

TEST_CASE("record: a call's state follows from what is finished, on hosts and devices",
          "[comm][unit]") {
  using dump::State;
  Record record(kWhose);
  for (int i = 0; i < 4; i++) record.call_begins(kOwned, {});
  record.call_ended(kOwned, 0);
  Record::Standing standing{.finished = 3, .on_device = {1}};
  auto made = record.dump(kOwned, "asked", standing, std::nullopt);
  CHECK(states_of(made) == std::vector{State::ended, State::begun, State::ended, State::begun});
  CHECK(made.finished == 2);
  CHECK_FALSE(made.failure);
  // Only a call that had to wait has a recorded end.
  REQUIRE(made.last_calls[0].ended);
  CHECK(*made.last_calls[0].ended >= made.last_calls[0].begun);
  CHECK_FALSE(made.last_calls[2].ended);
  made = record.dump(kOwned, "failure", standing, dump::Failed{"aborted", "enough", 2});
  CHECK(states_of(made) == std::vector{State::ended, State::failed, State::ended, State::failed});
  CHECK(made.failure->message == "enough");
}

TEST_CASE("record: messages that were over at once are listed as such", "[comm][unit]") {
  Record record(kWhose);
  record.message_is_over(kOwned, {true, DataType::float32, 2, 9, 12, record.trace_time()});
  record.message_is_over(kOwned, {false, DataType::uint8, 0, 8, 1, record.trace_time()});
  const auto made = record.dump(kOwned, "asked", {}, std::nullopt);
  CHECK(made.messages == 2);
  REQUIRE(made.last_messages.size() == 2);
  const auto& sent = made.last_messages[0];
  CHECK(sent.is_send);
  CHECK(sent.peer == 2U);
  CHECK(sent.tag == 9U);
  CHECK(sent.bytes == 12);
  CHECK(sent.state == dump::State::ended);
  CHECK_FALSE(made.last_messages[1].is_send);
}

TEST_CASE("record: a sleep counts once for each rank that is awaited", "[comm][unit]") {
  Record record(kWhose);
  record.slept(kOwned, {2, 0, 2}, 3ms);
  record.slept(kOwned, {2}, 1ms);
  const auto& losses = record.losses(kOwned).by_peer();
  REQUIRE(losses.size() == 2);
  CHECK(losses.at(0).waits == 1);
  CHECK(losses.at(0).time == 3ms);
  CHECK(losses.at(2).waits == 2);
  CHECK(losses.at(2).time == 4ms);
}

TEST_CASE("record: without CCOLL_DUMP and CCOLL_TRACE there is neither file nor trace",
          "[comm][unit]") {
  Record record(kWhose);
  record.begin({0, 0, 0});
  CHECK_FALSE(record.has_file());
  CHECK(record.tracing(kOwned) == nullptr);
  CHECK(record.trace_time() == 0);
}

TEST_CASE("record: dumps are written to the directory that is asked for", "[comm][unit]") {
  const DumpsThere there;
  Record record(kWhose);
  record.begin({0, 0, 0});
  REQUIRE(record.has_file());
  record.call_begins(kOwned, signature_of(7));
  const auto made = record.dump_of_calls("signal");
  record.write(made);
  std::ifstream file(record.path());
  const std::string text(std::istreambuf_iterator<char>(file), {});
  CHECK(value_or_throw(dump::parse(text)) == made);
}

TEST_CASE("record: a request stands until it ends, with its last reason", "[comm][unit]") {
  Record record(kWhose);
  CHECK_FALSE(record.is_requested());
  record.request("signal");
  record.request("beside");
  CHECK(record.is_requested());
  CHECK(record.requested_reason() == "beside");
  record.end_request();
  CHECK_FALSE(record.is_requested());
}

TEST_CASE("record: the dump of the first failure is not replaced by later failures'",
          "[comm][unit]") {
  Record record(kWhose);
  CHECK(record.admits("beside"));
  CHECK(record.admits("beside"));
  CHECK_FALSE(record.has_dumped_failure());
  CHECK(record.admits("failure"));
  CHECK(record.has_dumped_failure());
  CHECK_FALSE(record.admits("failure"));
  CHECK_FALSE(record.admits("beside"));
  CHECK(record.admits("signal"));
}

TEST_CASE("record: what stood at the break is kept", "[comm][unit]") {
  Record record(kWhose);
  CHECK_FALSE(record.kept(kOwned));
  record.keep(kOwned, {.finished = 4});
  CHECK(record.kept(kOwned)->finished == 4);
}

}  // namespace ccoll
