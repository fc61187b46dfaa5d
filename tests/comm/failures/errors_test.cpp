// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <latch>

#include "support/ranks.hpp"
#include "support/real_time.hpp"
#include "usable_transports.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using testing::expect;
using testing::message_of;
using testing::options_for;
using testing::run_ranks;

namespace {

struct CountDown {
  explicit CountDown(std::latch& counted) : latch(counted) {}
  CountDown(const CountDown&) = delete;
  CountDown& operator=(const CountDown&) = delete;
  std::latch& latch;
  ~CountDown() { latch.count_down(); }
};

}  // namespace

TEST_CASE("errors: bad arguments are refused before anything is sent", "[comm]") {
  const auto errors = run_ranks(4, {}, [](Communicator& communicator) {
    std::vector<float> data(10), out(40);
    const auto refuse = [](const std::string& got, const std::string& wanted) {
      expect(got == "invalid_argument: " + wanted, got);
    };
    refuse(
        message_of([&] { communicator.all_to_all(std::span<const float>(data), std::span(data)); }),
        "all_to_all: 10 elements do not divide evenly among 4 ranks; use all_to_all_v");
    refuse(message_of([&] { communicator.broadcast(std::span(data), 4); }),
           "broadcast: root 4 is not one of 4 ranks: expected 0 to 3");
    refuse(message_of([&] { communicator.broadcast(std::span(data), -1); }),
           "broadcast: root -1 is not one of 4 ranks: expected 0 to 3");
    refuse(message_of([&] {
             communicator.all_reduce(ConstBlock(nullptr, 3, DataType::float32),
                                     Block(out.data(), 3, DataType::float32));
           }),
           "all_reduce: input is null, 3 elements are expected there");
    const auto no_type = static_cast<DataType>(99);
    refuse(message_of([&] {
             communicator.all_gather(ConstBlock(data.data(), 10, no_type),
                                     Block(out.data(), communicator.size() * 10, no_type));
           }),
           "all_gather: 99 is not a DataType");
    refuse(message_of([&] {
             communicator.all_reduce(std::vector{BufferPair(Block(nullptr, 0, no_type))});
           }),
           "all_reduce: 99 is not a DataType");
    refuse(message_of([&] { communicator.send(ConstBlock(data.data(), 10, no_type), 0); }),
           "send: 99 is not a DataType");
    refuse(message_of([&] { communicator.explain("all_gather_v", 4, no_type); }),
           "all_gather_v: 99 is not a DataType");
    const auto copy = communicator.duplicate({.name = "copy"});
    refuse(message_of([&] { copy.algorithm_for("all_reduce", 4, no_type); }),
           "copy: all_reduce: 99 is not a DataType");
    refuse(message_of([&] { copy.algorithm_for("all", 4, DataType::uint8); }),
           "copy: no collective is called 'all'");
    refuse(message_of([&] { communicator.all_reduce(data, static_cast<ReduceOp>(99)); }),
           "all_reduce: 99 is not a ReduceOp");
    refuse(message_of([&] { communicator.barrier({.timeout = -1ms}); }),
           "barrier: a time limit of -1 ms; it must be 0 or more");
    refuse(message_of([&] { communicator.recv(data, 0, 0, {.timeout = -1ms}); }),
           "recv: a time limit of -1 ms; it must be 0 or more");
    refuse(message_of([&] { communicator.duplicate({.timeout = -1ms}); }),
           "duplicate: a time limit of -1 ms; it must be 0 or more");
    refuse(message_of([&] {
             communicator.all_reduce(ConstBlock(out.data() + 1, 10, DataType::float32),
                                     Block(out.data(), 10, DataType::float32));
           }),
           "all_reduce: input and output overlap: the input begins 1 elements from the output; in "
           "place it must begin at 0");
    refuse(message_of([&] {
             const auto* const in = reinterpret_cast<const std::byte*>(out.data()) + 3;
             communicator.all_reduce(ConstBlock(in, 10, DataType::float32),
                                     Block(out.data(), 10, DataType::float32));
           }),
           "all_reduce: input and output overlap: the input begins 3 bytes from the output; in "
           "place it must begin at 0 elements");
    refuse(message_of([&] {
             communicator.send_recv(ConstBlock(out.data(), 10, DataType::float32), 1,
                                    Block(out.data() + 9, 10, DataType::float32), 3);
           }),
           "send_recv: the receive buffer overlaps the send buffer");
    refuse(message_of([&] {
             communicator.send(ConstBlock(data.data(), SIZE_MAX / 3, DataType::float32), 1);
           }),
           fmt::format("send: {} elements are more than memory can hold", SIZE_MAX / 3));
    refuse(message_of([&] { communicator.send(std::span<const float>(data), 7); }),
           "send: rank 7 is not one of 4 ranks: expected 0 to 3");
    const auto unknown = message_of([&] {
      communicator.all_reduce(std::span(data), ReduceOp::sum, {.timeout = {}, .algorithm = "rign"});
    });
    expect(unknown.starts_with("invalid_argument: all_reduce: no algorithm 'rign'; there are ring"),
           unknown);
    // Nothing was sent, so the communicator is intact.
    communicator.all_reduce(std::span(data));
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("errors: ranks that make different calls learn both sides, none hangs", "[comm]") {
  for (const auto& kind : testing::usable_transports()) {
    const auto meet = [&](const std::function<void(Communicator&)>& odd_one) {
      return run_ranks(3, options_for(kind.name), [&](Communicator& communicator) {
        std::vector<float> data(12, 1);
        communicator.all_reduce(std::span(data));
        if (communicator.rank() == 1)
          odd_one(communicator);
        else
          communicator.all_reduce(std::span(data).first(10));
      });
    };
    CAPTURE(kind.name);
    std::vector<float> data(100);
    for (const auto& error :
         meet([&](Communicator& c) { c.all_reduce(std::span(data).first(11)); })) {
      CHECK_THAT(error, Contains("all_reduce of 10 float32, sum (call 1)"));
      CHECK_THAT(error, Contains("rank 1 all_reduce of 11 float32, sum (call 1)"));
    }
    for (const auto& error : meet([&](Communicator& c) { c.barrier(); })) {
      CHECK_THAT(error, Contains("all_reduce of 10 float32, sum (call 1)"));
      CHECK_THAT(error, Contains("rank 1 barrier (call 1)"));
    }
    for (const auto& error :
         meet([&](Communicator& c) { c.all_reduce(std::span(data).first(10), ReduceOp::max); }))
      CHECK_THAT(error, Contains("rank 1 all_reduce of 10 float32, max"));
  }
}

TEST_CASE("errors: calls that share no link are found different too", "[comm]") {
  // Rank 0 waits for rank 1 in a broadcast and rank 1 for rank 0: neither sends anything.
  for (const auto& kind : testing::usable_transports()) {
    const auto start = std::chrono::steady_clock::now();
    const auto errors = run_ranks(2, options_for(kind.name), [&](Communicator& communicator) {
      std::vector<float> data(12, 1);
      communicator.broadcast(std::span(data), 1 - communicator.rank());
    });
    CAPTURE(kind.name);
    for (const auto& error : errors) {
      CHECK_THAT(error, Contains("rank 0 broadcast of 12 float32, root 1"));
      CHECK_THAT(error, Contains("rank 1 broadcast of 12 float32, root 0"));
    }
    CHECK(std::chrono::steady_clock::now() - start < 10s);
  }
}

TEST_CASE("errors: one rank's deadline ends the call on all ranks and names whom it waited for",
          "[comm]") {
  // Rank 2 stays until both have their errors: leaving would cause another one.
  std::latch told(2);
  const auto errors = run_ranks(3, {}, [&](Communicator& communicator) {
    std::vector<float> data(12, 1);
    if (communicator.rank() == 2) return told.wait();
    const CountDown leaves{told};
    const auto limit = communicator.rank() == 0 ? 100ms : 60'000ms;
    const auto began = std::chrono::steady_clock::now();
    try {
      // In one_shot every rank waits for every other.
      communicator.all_reduce(std::span(data), ReduceOp::sum,
                              {.timeout = limit, .algorithm = "one_shot"});
    } catch (const Error& error) {
      // 2 s, plus time for a busy machine.
      expect(std::chrono::steady_clock::now() - began < 6s, "told too late");
      expect(error.kind() == ErrorKind::timed_out && error.culprit() == 2, "not of rank 2");
      throw;
    }
  });
  for (const int rank : {0, 1}) {
    const auto& error = errors[static_cast<std::size_t>(rank)];
    CHECK_THAT(error, Contains("on rank 0 timed out after "));
    CHECK_THAT(error, Contains("it waits for") && Contains("rank 2"));
  }
}

TEST_CASE("errors: the longest of limits is no limit that has passed", "[comm]") {
  const auto errors = run_ranks(2, options_for("tcp"), [](Communicator& communicator) {
    communicator.barrier({.timeout = std::chrono::milliseconds::max(), .algorithm = {}});
    communicator.barrier_async().wait(std::chrono::milliseconds::max());
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("errors: a rank that gives up in the middle of a step frees everyone", "[comm]") {
  // Rank 3 takes back what it lent before rank 2, which reads from ranks 1 and 3, has come. With
  // fewer elements it would send a copy.
  for (const auto& kind : testing::usable_transports()) {
    const auto start = std::chrono::steady_clock::now();
    // Buffers of calls without a waiting caller must outlive the communicators.
    std::vector<std::vector<float>> inputs(4, std::vector<float>(2000, 1)), outputs = inputs;
    std::latch gone(1);
    const auto errors = run_ranks(4, options_for(kind.name), [&](Communicator& communicator) {
      const auto rank = static_cast<std::size_t>(communicator.rank());
      auto &in = inputs[rank], &out = outputs[rank];
      const auto reduce = [&] {
        return communicator.reduce_async(in, Block(out.data(), in.size(), DataType::float32),
                                         ReduceOp::sum, 0, {.timeout = {}, .algorithm = "tree"});
      };
      if (communicator.rank() == 3) {
        const CountDown leaves{gone};
        reduce();
        testing::leave_time(50ms);  // nobody sees that it has lent its data
        return communicator.close();
      }
      if (communicator.rank() == 2) gone.wait();
      reduce().wait();
    });
    CAPTURE(kind.name, errors);
    CHECK(std::chrono::steady_clock::now() - start < 10s);
    // Data that rank 3 sent by TCP before it left is delivered; memory that it lent is taken back.
    if (kind.name == "inproc") CHECK_THAT(errors[2], Contains("rank 3"));
  }
}

TEST_CASE("errors: a rank that leaves early ends the others' calls", "[comm]") {
  for (const auto& kind : testing::usable_transports()) {
    const auto start = std::chrono::steady_clock::now();
    const auto errors = run_ranks(3, options_for(kind.name), [&](Communicator& communicator) {
      std::vector<float> data(12, 1);
      communicator.all_reduce(std::span(data));
      if (communicator.rank() != 2) communicator.all_reduce(std::span(data));
    });
    CAPTURE(kind.name);
    CHECK_THAT(errors[0], Contains("rank 2"));
    CHECK_THAT(errors[1], Contains("rank 2"));
    CHECK(std::chrono::steady_clock::now() - start < 10s);
  }
}

TEST_CASE("errors: a broken communicator says so at once, with the first cause", "[comm]") {
  const auto errors = run_ranks(2, options_for("inproc"), [&](Communicator& communicator) {
    std::vector<float> data(12, 1);
    const auto count = communicator.rank() == 0 ? 3U : 4U;
    const auto first = message_of([&] { communicator.all_reduce(std::span(data).first(count)); });
    expect(first.starts_with("mismatch: "), first);
    const auto second = message_of([&] { communicator.barrier(); });
    expect(second.starts_with("mismatch: an earlier failure broke the communicator: "), second);
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("errors: a rank whose part was over before a mismatch showed learns it at close",
          "[comm]") {
  const bool together = GENERATE(true, false);
  for (const auto& kind : testing::usable_transports()) {
    CAPTURE(kind.name, together);
    std::latch sent(2);
    const auto start = std::chrono::steady_clock::now();
    const auto errors = run_ranks(2, options_for(kind.name), [&](Communicator& communicator) {
      // Each rank is the root: it has sent and waits for nobody.
      std::vector<float> data(12, 1);
      Work work;
      {
        // The call itself may already fail.
        const CountDown begun{sent};
        work = communicator.broadcast_async(data, communicator.rank());
      }
      if (together) sent.wait();
      work.wait();
      communicator.close();
    });
    // A rank that left before the other made its call cannot know.
    CHECK((together ? !errors[0].empty() && !errors[1].empty() : errors[0] + errors[1] != ""));
    for (const auto& error : errors) {
      if (error.empty()) continue;
      CHECK_THAT(error, Contains("rank 0 broadcast of 12 float32, root 0"));
      CHECK_THAT(error, Contains("rank 1 broadcast of 12 float32, root 1"));
    }
    CHECK(std::chrono::steady_clock::now() - start < 10s);
  }
}

TEST_CASE("errors: of two ranks that close a duplicate at once after different calls one is told",
          "[comm]") {
  for (const auto& kind : testing::usable_transports()) {
    CAPTURE(kind.name);
    constexpr std::size_t kTimes = 60;
    std::array<std::atomic<int>, kTimes> told{};
    const auto errors = run_ranks(2, options_for(kind.name), [&](Communicator& communicator) {
      for (auto& times : told) {
        auto twin = communicator.duplicate();
        std::vector<float> data(4);
        const auto outcome = message_of([&] {
          twin.broadcast(std::span(data), communicator.rank());
          twin.close();
        });
        expect(outcome == "no error" || outcome.starts_with("mismatch: "), outcome);
        if (outcome != "no error") times++;
        communicator.barrier();
      }
    });
    for (const auto& error : errors) CHECK(error == "");
    CHECK(std::ranges::none_of(told, [](const auto& times) { return times == 0; }));
  }
}

TEST_CASE("errors: where ranks differ in an earlier call, both sides are of that call", "[comm]") {
  for (const auto& kind : testing::usable_transports()) {
    CAPTURE(kind.name);
    const auto errors = run_ranks(2, options_for(kind.name), [&](Communicator& communicator) {
      // Each rank is the root: it has sent and continues.
      std::vector<float> data(4);
      communicator.broadcast(std::span(data), communicator.rank());
      communicator.barrier();
    });
    for (const auto& error : errors) {
      CHECK_THAT(error, Contains("rank 0 broadcast of 4 float32, root 0 (call 0)"));
      CHECK_THAT(error, Contains("rank 1 broadcast of 4 float32, root 1 (call 0)"));
    }
  }
}

TEST_CASE("errors: ranks that made the same calls close without a word", "[comm]") {
  for (const auto& kind : testing::usable_transports()) {
    const auto errors = run_ranks(5, options_for(kind.name), [&](Communicator& communicator) {
      std::vector<float> data(12, 1);
      auto other = communicator.duplicate();
      for (int root = 0; root < 5; ++root) communicator.broadcast(std::span(data), root);
      for (int call = 0; call < 3; ++call) other.all_reduce(std::span(data));
      if (communicator.rank() % 2 == 0) other.close();
      communicator.close();
    });
    for (const auto& error : errors) CHECK(error == "");
  }
}

TEST_CASE("errors: a message of another size names both sizes", "[comm]") {
  for (const auto& kind : testing::usable_transports()) {
    const auto errors = run_ranks(2, options_for(kind.name), [&](Communicator& communicator) {
      std::vector<float> data(100, 1);
      if (communicator.rank() == 0)
        communicator.send(std::span<const float>(data), 1);
      else
        communicator.recv(std::span(data).first(50), 0);
    });
    CAPTURE(kind.name);
    CHECK_THAT(
        errors[1],
        Contains("recv from rank 0 tag 0 on rank 1: the message has 400 bytes, the buffer 200"));
  }
}

TEST_CASE("errors: one rank, alone, does everything", "[comm]") {
  auto communicator = Communicator::create(Environment{}, {});
  std::vector<float> data = {1, 2}, out(2);
  communicator.all_reduce(std::span(data), ReduceOp::avg);
  communicator.all_gather(std::span<const float>(data), std::span(out));
  communicator.barrier();
  CHECK(out == std::vector<float>{1, 2});
}

TEST_CASE("errors: ranks that were started with different options are told at start-up", "[comm]") {
  const auto store = make_inproc_store();
  const auto errors = testing::run_threads(3, [&](int rank) {
    CommunicatorOptions options;
    options.start_timeout = 20s;
    if (rank == 1) options.transport = "tcp";
    if (rank == 1) options.algorithm = "ring";
    Communicator::create(store, rank, 3, options);
  });
  for (const auto& error : errors)
    CHECK(error ==
          "ranks were started with different options: CCOLL_TRANSPORT: rank 0 has by reach, rank 1 "
          "has tcp; CCOLL_ALGO: rank 0 has by cost, rank 1 has ring");
}
