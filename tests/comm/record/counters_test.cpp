// SPDX-License-Identifier: Apache-2.0
// Communicator::counters(): traffic and losses per peer.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <random>

#include "algorithms/algorithms.hpp"
#include "comm/on_transports.hpp"
#include "support/effort.hpp"
#include "support/eventually.hpp"
#include "support/real_time.hpp"
#include "usable_transports.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using testing::expect;
using testing::on_all_transports;

namespace {

/// The counters of one peer; zero if there was no traffic.
PeerCounters of_peer(const Communicator& communicator, int rank) {
  for (const auto& peer : communicator.counters().peers)
    if (peer.rank == rank) return peer;
  return {};
}

/// One call of that kind with any buffers; at most 4 bytes per element.
void call(Communicator& world, Kind kind, std::size_t count, int root, std::string_view algorithm) {
  const auto size = static_cast<std::size_t>(world.size());
  std::vector<std::int32_t> in(count * size + 1, 1), out(count * size + 1);
  const auto type = DataType::int32;
  const CallOptions by{.timeout = 20s, .algorithm = algorithm, .label = ""};
  switch (kind) {
    case Kind::all_reduce:
      return world.all_reduce(ConstBlock(in.data(), count, type), Block(out.data(), count, type),
                              ReduceOp::sum, by);
    case Kind::reduce:
      return world.reduce(ConstBlock(in.data(), count, type), Block(out.data(), count, type),
                          ReduceOp::sum, root, by);
    case Kind::broadcast:
      return world.broadcast(ConstBlock(in.data(), count, type), Block(out.data(), count, type),
                             root, by);
    case Kind::all_gather:
      return world.all_gather(ConstBlock(in.data(), count, type),
                              Block(out.data(), world.size() * count, type), by);
    case Kind::reduce_scatter:
      return world.reduce_scatter(ConstBlock(in.data(), world.size() * count, type),
                                  Block(out.data(), count, type), ReduceOp::sum, by);
    case Kind::all_to_all:
      return world.all_to_all(ConstBlock(in.data(), world.size() * count, type),
                              Block(out.data(), world.size() * count, type), by);
    case Kind::gather:
      return world.gather(ConstBlock(in.data(), count, type),
                          Block(out.data(), world.size() * count, type), root, by);
    case Kind::scatter:
      return world.scatter(ConstBlock(in.data(), world.size() * count, type),
                           Block(out.data(), count, type), root, by);
    case Kind::barrier:
      return world.barrier(by);
  }
}

struct Case {
  const CatalogueEntry* entry;
  Problem problem;
  int calls;
};

/// Draws cases for every algorithm that ranks of one host can run.
std::vector<Case> draw_cases(int size, std::mt19937& random) {
  std::vector<Case> cases;
  for (const auto& entry : catalogue()) {
    if (entry.by_host) continue;
    Problem problem;
    problem.kind = entry.kind;
    problem.size = static_cast<Rank>(size);
    problem.root = static_cast<Rank>(random() % problem.size);
    if (entry.kind != Kind::reduce && entry.kind != Kind::broadcast && entry.kind != Kind::gather &&
        entry.kind != Kind::scatter)
      problem.root = 0;
    // The count fits into one window, to which the message formulas apply, but leaves no slice
    // empty.
    problem.count = entry.kind == Kind::barrier ? 1 : problem.size + random() % 200;
    cases.push_back({&entry, problem, 1 + static_cast<int>(random() % 3)});
  }
  return cases;
}

/// The increase of the sums over all peers.
struct Sums {
  std::uint64_t messages_sent = 0, bytes_sent = 0, messages_received = 0, bytes_received = 0;
  explicit Sums(const Counters& counters) {
    for (const auto& peer : counters.peers) {
      messages_sent += peer.messages_sent;
      bytes_sent += peer.bytes_sent;
      messages_received += peer.messages_received;
      bytes_received += peer.bytes_received;
    }
  }
};

}  // namespace

TEST_CASE("counters: messages and bytes of every algorithm are its formulas'", "[comm][property]") {
  const auto seed = std::random_device{}();
  std::mt19937 random(seed);
  for (const int size :
       testing::by_effort<std::vector<int>>({3}, {2, 5, 8}, {2, 3, 4, 5, 6, 7, 8})) {
    const auto cases = draw_cases(size, random);
    for (const auto& kind : testing::usable_transports()) {
      CAPTURE(seed, size, kind.name);
      // Indexed by rank, then case.
      std::vector<std::vector<Counters>> counted(static_cast<std::size_t>(size));
      const auto errors =
          testing::run_ranks(size, testing::options_for(kind.name), [&](Communicator& world) {
            auto& mine = counted[static_cast<std::size_t>(world.rank())];
            mine.push_back(world.counters());
            for (const auto& each : cases) {
              for (int i = 0; i < each.calls; i++)
                call(world, each.problem.kind, each.problem.count,
                     static_cast<int>(each.problem.root), to_string(each.entry->algorithm));
              mine.push_back(world.counters());
            }
          });
      for (const auto& error : errors) REQUIRE(error == "");

      for (std::size_t i = 0; i < cases.size(); i++) {
        const auto& [entry, problem, calls] = cases[i];
        CAPTURE(to_string(entry->kind), to_string(entry->algorithm), problem.count, problem.root);
        const auto theory = entry->theory(problem);
        const auto times = static_cast<std::uint64_t>(calls);
        const std::uint64_t width = problem.kind == Kind::barrier ? 1 : 4;
        std::uint64_t messages = 0, bytes = 0, most_messages = 0, most_bytes = 0;
        for (const auto& of_rank : counted) {
          const Sums before(of_rank[i]), after(of_rank[i + 1]);
          CHECK(of_rank[i + 1].collectives == of_rank[i].collectives + times);
          messages += after.messages_sent - before.messages_sent;
          bytes += after.bytes_sent - before.bytes_sent;
          most_messages = std::max(most_messages, after.messages_sent - before.messages_sent);
          most_bytes = std::max(most_bytes, after.bytes_sent - before.bytes_sent);
        }
        CHECK(messages == times * theory.total.messages);
        CHECK(bytes == times * theory.total.elems_sent * width);
        CHECK(most_messages == times * theory.busiest.messages);
        CHECK(most_bytes == times * theory.busiest.elems_sent * width);
      }
      // Each pair agrees on the bytes sent and received, and on the transport.
      for (int a = 0; a < size; a++) {
        for (const auto& to : counted[static_cast<std::size_t>(a)].back().peers) {
          CHECK(to.transport == kind.name);
          CHECK(to.errors == 0);
          const auto& others = counted[static_cast<std::size_t>(to.rank)].back().peers;
          const auto from = std::ranges::find(others, a, &PeerCounters::rank);
          REQUIRE(from != others.end());
          CHECK(from->messages_received == to.messages_sent);
          CHECK(from->bytes_received == to.bytes_sent);
        }
      }
    }
  }
}

TEST_CASE("counters: a send is one message of its bytes, however it travels", "[comm][property]") {
  const auto seed = std::random_device{}();
  on_all_transports(2, [&](Communicator& world) {
    std::mt19937 random(seed);
    const int peer = 1 - world.rank();
    std::uint64_t messages = 0, bytes = 0;
    std::vector<std::byte> data(700'000);
    for (int i = 0; i < 40; i++) {
      const std::size_t most[] = {1, 100, 5'000, 70'000, 700'000};
      const auto count = random() % most[random() % 5];
      const bool first = (random() % 2 == 0) == (world.rank() == 0);
      if (first)
        world.send(ConstBlock(data.data(), count, DataType::uint8), peer, i);
      else
        world.recv(Block(data.data(), data.size(), DataType::uint8), peer, i);
      messages += first ? 1 : 0;
      bytes += first ? count : 0;
    }
    const auto counted = of_peer(world, peer);
    expect(counted.messages_sent == messages && counted.bytes_sent == bytes,
           fmt::format("seed {}: {} messages of {} bytes, counted {} of {}", seed, messages, bytes,
                       counted.messages_sent, counted.bytes_sent));
    expect(counted.messages_received == 40 - messages, "what came");
    expect(world.counters().collectives == 0, "no collectives");
  });
}

TEST_CASE("counters: time is lost to the rank that is late", "[comm][unit]") {
  constexpr int kLate = 2;
  constexpr auto kDelay = 300ms;
  std::atomic<int> waiting{0};
  int rounds = 0;  // the late rank's count
  const auto meet_and_be_late = [&](Communicator& world) {
    world.barrier();
    if (world.rank() != kLate) {
      waiting++;
      return;
    }
    rounds++;
    expect(testing::eventually([&] { return waiting >= 3 * rounds; }), "the others do not come");
    testing::be_late(kDelay);
  };
  const auto charged_most = [](const Counters& counters) {
    return *std::ranges::max_element(counters.peers, {}, &PeerCounters::time_lost);
  };
  SECTION("in a collective in which everyone waits for it") {
    on_all_transports(4, [&](Communicator& world) {
      meet_and_be_late(world);
      int in = 1, out = 0;
      world.all_reduce(ConstBlock(&in, 1, DataType::int32), Block(&out, 1, DataType::int32),
                       ReduceOp::sum, {.algorithm = "one_shot"});
      if (world.rank() == kLate) return;
      const auto most = charged_most(world.counters());
      expect(most.rank == kLate, fmt::format("charged is rank {}", most.rank));
      expect(most.time_lost >= kDelay / 2 && most.time_lost < 20s,
             fmt::format("{} ns", most.time_lost.count()));
      expect(most.waits > 0, "it slept");
    });
  }
  SECTION("in a receive") {
    on_all_transports(4, [&](Communicator& world) {
      meet_and_be_late(world);
      int value = 0;
      for (int rank = 0; rank < 4 && world.rank() == kLate; rank++)
        if (rank != kLate) world.send(ConstBlock(&value, 1, DataType::int32), rank, 0);
      if (world.rank() == kLate) return;
      world.recv(Block(&value, 1, DataType::int32), kLate, 0);
      expect(of_peer(world, kLate).time_lost >= kDelay / 2, "too little");
    });
  }
  SECTION("between group_begin and group_end") {
    on_all_transports(4, [&](Communicator& world) {
      meet_and_be_late(world);
      int in = 1, out = 0;
      group_begin();
      world.all_reduce(ConstBlock(&in, 1, DataType::int32), Block(&out, 1, DataType::int32),
                       ReduceOp::sum, {.algorithm = "one_shot"});
      group_end();
      if (world.rank() == kLate) return;
      expect(charged_most(world.counters()).rank == kLate, "somebody else");
      expect(of_peer(world, kLate).time_lost >= kDelay / 2, "too little");
    });
  }
}

TEST_CASE("counters: an error is that of the rank that caused it", "[comm][unit]") {
  SECTION("of one that leaves") {
    on_all_transports(3, [&](Communicator& world) {
      world.barrier();
      if (world.rank() == 2) return;
      const auto error = testing::message_of([&] {
        for (int i = 0; i < 2; i++) world.barrier({.algorithm = "dissemination"});
      });
      const auto counted = world.counters();
      expect(of_peer(world, 2).errors == 1 && of_peer(world, 1 - world.rank()).errors == 0, error);
    });
  }
  SECTION("of one that does not come, and that no message names as the cause") {
    std::atomic<bool> told = false;
    on_all_transports(2, [&](Communicator& world) {
      world.barrier();
      if (world.rank() == 1) {
        expect(testing::eventually([&] { return told.exchange(false); }), "rank 0 waits");
        testing::message_of([&] { world.close(); });  // the close reports the mismatch
        return;
      }
      int in = 1, out = 0;
      const auto error = testing::message_of([&] {
        world.all_reduce(ConstBlock(&in, 1, DataType::int32), Block(&out, 1, DataType::int32),
                         ReduceOp::sum, {.timeout = 200ms});
      });
      told = true;
      expect(error.starts_with("timed_out"), error);
      expect(of_peer(world, 1).errors == 1, "no error of rank 1");
      expect(of_peer(world, 1).messages_received > 0, "what came before is forgotten");
    });
  }
  SECTION("of one whose message does not fit") {
    on_all_transports(2, [&](Communicator& world) {
      std::int32_t data[2] = {};
      if (world.rank() == 0) return world.send(ConstBlock(data, 2, DataType::int32), 1, 0);
      testing::message_of([&] { world.recv(Block(data, 1, DataType::int32), 0, 0); });
      expect(of_peer(world, 0).errors == 1, "none");
      world.recv(Block(data, 2, DataType::int32), 0, 0);
      expect(of_peer(world, 0).errors == 1, "more than one");
      expect(of_peer(world, 0).messages_received == 1, "one message came");
    });
  }
}

TEST_CASE("counters: a socket that takes no more is a retry", "[comm][unit]") {
  const auto errors = testing::run_ranks(2, testing::options_for("tcp"), [](Communicator& world) {
    std::vector<std::byte> data(64 << 20);
    world.barrier();
    // It exceeds any socket's buffers.
    if (world.rank() == 1) testing::be_late(200ms);
    world.broadcast(Block(data.data(), data.size(), DataType::uint8), 0);
    if (world.rank() == 0) expect(of_peer(world, 1).retries > 0, "none");
  });
  for (const auto& error : errors) CHECK(error == "");
}
