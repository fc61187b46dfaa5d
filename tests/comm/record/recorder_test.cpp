// SPDX-License-Identifier: Apache-2.0
// The flight recorder: what Communicator::dump() reports of the last operations.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <random>

#include "ccoll/ccoll.hpp"
#include "comm/record/dump/dump.hpp"
#include "dumps/read.hpp"
#include "support/asleep.hpp"
#include "support/directory.hpp"
#include "support/eventually.hpp"
#include "support/ranks.hpp"

namespace ccoll {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using testing::expect;

dump::Dump dump_of(const Communicator& communicator) {
  return value_or_throw(dump::parse(communicator.dump()));
}

/// Makes a random collective without a root; returns its expected line in the recorder.
std::string make_call(Communicator& world, std::mt19937& random) {
  const std::size_t count = 1 + random() % 9;
  std::vector<float> in(count * 4), out(count * 4);
  switch (random() % 4) {
    case 0:
      world.all_reduce(ConstBlock(in.data(), count, DataType::float32),
                       Block(out.data(), count, DataType::float32));
      return fmt::format("all_reduce of {} float32, sum", count);
    case 1:
      world.all_reduce(ConstBlock(in.data(), count, DataType::float32),
                       Block(out.data(), count, DataType::float32), ReduceOp::max,
                       {.timeout = 20s, .label = "the maximum"});
      return fmt::format("all_reduce of {} float32, max", count);
    case 2:
      world
          .all_gather_async(ConstBlock(in.data(), count, DataType::float32),
                            Block(out.data(), world.size() * count, DataType::float32))
          .wait();
      return fmt::format("all_gather of {} float32", count);
    default:
      world.barrier();
      return "barrier";
  }
}

/// A temporary directory that CCOLL_DUMP names.
class DumpDirectory : public testing::Directory {
 public:
  DumpDirectory() { setenv("CCOLL_DUMP", path().c_str(), 1); }
  ~DumpDirectory() { unsetenv("CCOLL_DUMP"); }

  /// Waits for `count` dumps; returns those that are there.
  std::vector<dump::Dump> dumps(std::size_t count) const {
    std::vector<dump::Dump> found;
    static_cast<void>(eventually([&] {
      std::vector<std::string> remarks;
      found = dump::read_directory(path(), remarks);
      REQUIRE(remarks.empty());
      return found.size() >= count;
    }));
    return found;
  }
};

}  // namespace

TEST_CASE("flight recorder: it holds the last calls of any sequence in order", "[comm][property]") {
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  const auto calls = GENERATE(0u, 5u, 256u, 700u);
  const auto errors =
      testing::run_ranks(2, testing::options_for("inproc"), [&](Communicator& world) {
        std::mt19937 random(seed);
        std::vector<std::string> made;
        for (unsigned i = 0; i < calls; i++) made.push_back(make_call(world, random));
        const auto dump = dump_of(world);
        expect(dump.rank == static_cast<std::uint32_t>(world.rank()) && dump.size == 2,
               "who it is");
        expect(dump.process == static_cast<std::uint64_t>(getpid()), "its process");
        expect(dump.calls == calls && dump.finished == calls, "how many there were");
        expect(dump.under_way.empty() && !dump.failure, "nothing is under way, nothing wrong");
        const auto kept = std::min(calls, 256u);
        expect(dump.last_calls.size() == kept, "how many are kept");
        std::int64_t before = 0;
        for (unsigned i = 0; i < kept; i++) {
          const auto& call = dump.last_calls[i];
          const auto& text = made[calls - kept + i];
          expect(call.number == calls - kept + i, "their numbers");
          expect(call.text == text, call.text + " where there was " + text);
          expect(call.label == (call.op == "max" ? "the maximum" : ""), "their labels");
          expect(call.state == dump::State::ended, "that they are over");
          expect(call.begun >= before && call.begun <= dump.at, "when they began");
          expect(!call.ended || (*call.ended >= call.begun && *call.ended <= dump.at),
                 "their ends");
          before = call.begun;
        }
      });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("flight recorder: it holds messages of both ways with what came", "[comm][unit]") {
  const auto errors =
      testing::run_ranks(2, testing::options_for("inproc"), [](Communicator& world) {
        const int peer = 1 - world.rank();
        // The first call takes the ordinary path, later ones the short path, the large one a
        // rendezvous.
        for (int round = 0; round < 300; round++) {
          std::vector<float> data(round == 200 ? 100'000 : 2);
          if (world.rank() == 0) world.send(std::span<const float>(data), peer, round);
          if (world.rank() == 1) world.recv(std::span(data), round % 2 ? peer : kAnyRank, kAnyTag);
        }
        const auto dump = dump_of(world);
        expect(dump.messages == 300 && dump.last_messages.size() == 256, "how many there were");
        for (unsigned i = 0; i < 256; i++) {
          const auto& message = dump.last_messages[i];
          const auto number = i + 44;
          expect(message.number == number && message.tag == number, "their order");
          expect(message.is_send == (world.rank() == 0), "what they are");
          expect(message.peer == static_cast<std::uint32_t>(peer), "with whom");
          expect(message.bytes == (number == 200 ? 400'000 : 8) && message.type == "float32",
                 "what");
          expect(message.state == dump::State::ended, "that they are over");
          expect(message.begun <= message.ended.value_or(message.begun), "their times");
        }
      });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("flight recorder: what is under way names its step and the ranks it waits for",
          "[comm][unit]") {
  std::atomic<int> looked = 0;
  const auto errors =
      testing::run_ranks(3, testing::options_for("inproc"), [&](Communicator& world) {
        std::vector<float> data(100), out(100);
        world.barrier();
        if (world.rank() == 2) {
          // The others wait, and look meanwhile.
          expect(eventually([&] { return looked == 2; }), "the others do not look");
          world.all_reduce(ConstBlock(data.data(), 100, DataType::float32),
                           Block(out.data(), 100, DataType::float32), ReduceOp::sum,
                           {.algorithm = "ring"});
          return;
        }
        auto work = world.all_reduce_async(ConstBlock(data.data(), 100, DataType::float32),
                                           Block(out.data(), 100, DataType::float32), ReduceOp::sum,
                                           {.algorithm = "ring", .label = "gradients"});
        auto recv = world.recv_async(Block(data.data(), 1, DataType::float32), 2, 7);
        const auto dump = dump_of(world);
        looked++;
        expect(dump.calls == 2 && dump.finished == 1, "one of two is over");
        expect(dump.under_way.size() == 2, "a collective and a receive are under way");
        const auto& call = dump.under_way[0];
        expect(call.call == 1 && call.stand && call.stand->steps > 0, "where it stands");
        expect(call.text.find("\"gradients\"") != std::string::npos, call.text);
        for (const auto& peer : call.waits_for)
          expect(peer.rank != static_cast<std::uint32_t>(world.rank()) &&
                     peer.process == static_cast<std::uint64_t>(getpid()),
                 "whom it waits for");
        const auto& message = dump.under_way[1];
        expect(!message.call && message.waits_for.at(0).rank == 2, message.text);
        expect(dump.last_calls.back().state == dump::State::begun, "that it has begun");
        work.wait();
        expect(dump_of(world).last_calls.back().ended.has_value(), "when it ended");
      });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("flight recorder: every rank of a broken communicator leaves one file, idle ones too",
          "[comm][unit]") {
  const DumpDirectory directory;
  auto options = testing::options_for("inproc");
  options.timeout = 200ms;
  const auto errors = testing::run_ranks(3, options, [&](Communicator& world) {
    world.barrier();
    // Rank 2 does not come, and makes no call that would report the failure.
    if (world.rank() != 2) {
      std::vector<float> data(4);
      const auto said = testing::message_of(
          [&] { world.all_reduce(std::span<const float>(data), std::span(data)); });
      expect(said.starts_with("timed_out"), said);
      expect(!dump_of(world).under_way.empty(), "a broken communicator tells how it stood");
    }
    // All stay until all have written.
    static_cast<void>(eventually([&] {
      std::vector<std::string> ignored;
      return dump::read_directory(directory.path(), ignored).size() == 3;
    }));
  });
  for (const auto& error : errors) CHECK(error == "");
  const auto dumps = directory.dumps(3);
  REQUIRE(dumps.size() == 3);
  for (unsigned rank = 0; rank < 3; rank++) {
    CAPTURE(rank);
    const auto& dump = dumps[rank];
    CHECK(dump.rank == rank);
    CHECK(dump.reason == "failure");
    REQUIRE(dump.failure);
    CHECK(dump.failure->kind == "timed_out");
    CHECK(dump.finished == 1);
    CHECK(dump.calls == (rank == 2 ? 1 : 2));
    if (rank == 2) continue;
    CHECK(dump.last_calls.back().state == dump::State::failed);
    REQUIRE(dump.under_way.size() == 1);
    CHECK(dump.under_way[0].call == 1);
  }
}

TEST_CASE("flight recorder: without CCOLL_DUMP a failure writes nothing; a bad one harms nothing",
          "[comm][unit]") {
  const bool bad = GENERATE(false, true);
  const std::filesystem::path home = std::filesystem::current_path();
  const DumpDirectory directory;
  if (bad) {
    const auto file = directory.path() + "/file";
    std::ofstream(file) << "no directory";
    setenv("CCOLL_DUMP", file.c_str(), 1);
  } else {
    unsetenv("CCOLL_DUMP");
  }
  const auto before = std::distance(std::filesystem::directory_iterator(home), {});
  auto options = testing::options_for("inproc");
  options.timeout = 100ms;
  std::atomic<bool> told = false;
  const auto errors = testing::run_ranks(2, options, [&](Communicator& world) {
    if (world.rank() == 1) return expect(eventually([&] { return told.load(); }), "rank 0 waits");
    const auto said = testing::message_of([&] { world.barrier(); });
    told = true;
    expect(said.starts_with("timed_out"), said);
  });
  for (const auto& error : errors) CHECK(error == "");
  CHECK(std::distance(std::filesystem::directory_iterator(home), {}) == before);
  CHECK(std::distance(std::filesystem::directory_iterator(directory.path()), {}) == (bad ? 1 : 0));
}

TEST_CASE("flight recorder: at a signal a process that is stuck writes its dumps", "[comm][unit]") {
  const DumpDirectory directory;
  setenv("CCOLL_DUMP_SIGNAL", "USR2", 1);
  std::vector<dump::Dump> dumps;
  std::array<testing::Sleeper, 2> waiting;
  const auto store = make_inproc_store();
  const auto errors = testing::run_threads(3, [&](int number) {
    auto world = Communicator::create(store, number, 3, testing::options_for("inproc"));
    if (number == 2) {
      for (const auto& other : waiting) expect(other.sleeps(), "a rank does not wait");
      kill(getpid(), SIGUSR2);
      dumps = directory.dumps(3);
    } else {
      waiting[static_cast<std::size_t>(number)].is_this_thread();
    }
    world.barrier();
  });
  unsetenv("CCOLL_DUMP_SIGNAL");
  for (const auto& error : errors) CHECK(error == "");
  REQUIRE(dumps.size() == 3);
  for (unsigned rank = 0; rank < 3; rank++) {
    CAPTURE(rank);
    CHECK(dumps[rank].reason == "signal");
    CHECK_FALSE(dumps[rank].failure);
    CHECK_FALSE(dumps[rank].partial);
    CHECK(dumps[rank].calls == (rank == 2 ? 0 : 1));
    CHECK(dumps[rank].under_way.size() == (rank == 2 ? 0 : 1));
  }
}

TEST_CASE("flight recorder: a dump's text is read as what was written, anything else refused",
          "[comm][unit]") {
  std::vector<std::string> texts(2);
  const auto errors =
      testing::run_ranks(2, testing::options_for("inproc"), [&](Communicator& world) {
        std::vector<float> data(4);
        world.broadcast(std::span(data), 1, {.label = "quotes \" and bytes \xff"});
        texts[static_cast<std::size_t>(world.rank())] = world.dump();
      });
  for (const auto& error : errors) CHECK(error == "");
  const auto dump = dump::parse(texts[0]);
  REQUIRE(dump);
  CHECK(dump->last_calls.at(0).root == 1);
  CHECK(dump::parse(dump::to_json(*dump)) == dump);
  for (std::size_t length = 0; length + 2 < texts[0].size(); length += 7) {
    const auto cut = dump::parse(texts[0].substr(0, length));
    REQUIRE(!cut);
    CHECK(cut.error().kind == ErrorKind::corrupt);
  }
  for (const char* wrong : {"", "[]", "1", "{}", R"({"ccoll_dump": 2})", R"({"ccoll_dump": "x"})"})
    CHECK_FALSE(dump::parse(wrong));
}

}  // namespace ccoll
