// SPDX-License-Identifier: Apache-2.0
// One thread that drives several ranks, and sends and receives in any order.
#include <catch2/catch.hpp>
#include <random>

#include "support/effort.hpp"
#include "support/logged.hpp"
#include "support/ranks.hpp"
#include "support/real_time.hpp"
#include "usable_transports.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using testing::message_of;
using testing::reduced;

namespace {

std::vector<Communicator> all_ranks(int size, std::string_view transport) {
  CommunicatorOptions options;
  options.transport = transport;
  options.timeout = 20s;
  return Communicator::create_all(size, options);
}

}  // namespace

TEST_CASE("call groups: one thread drives all ranks' collectives", "[comm]") {
  for (const auto& kind : testing::usable_transports()) {
    for (const int size : reduced() ? std::vector{1, 3} : std::vector{1, 2, 5, 8}) {
      CAPTURE(kind.name, size);
      auto ranks = all_ranks(size, kind.name);
      const auto n = static_cast<std::size_t>(size);
      const auto seed = std::random_device{}();
      CAPTURE(seed);
      std::mt19937_64 random(seed);
      for (int round = 0; round < 10; round++) {
        const std::size_t count = random() % 100'000;
        std::vector<std::vector<std::int32_t>> sums(n), gathered(n), mine(n);
        {
          CallGroup group;
          for (std::size_t r = 0; r < n; r++) {
            CHECK(ranks[r].rank() == static_cast<int>(r));
            sums[r].assign(count, static_cast<std::int32_t>(r));
            mine[r] = {static_cast<std::int32_t>(r)};
            gathered[r].resize(n);
            ranks[r].all_reduce(std::span(sums[r]));
            ranks[r].all_gather(std::span<const std::int32_t>(mine[r]), std::span(gathered[r]));
            ranks[r].barrier();
          }
          group.end();
        }
        const auto total = static_cast<std::int32_t>(n * (n - 1) / 2);
        for (std::size_t r = 0; r < n; r++) {
          CHECK(sums[r] == std::vector<std::int32_t>(count, total));
          for (std::size_t from = 0; from < n; from++)
            CHECK(gathered[r][from] == static_cast<std::int32_t>(from));
        }
      }
    }
  }
}

TEST_CASE("call groups: sends and receives in any order do not deadlock, groups nest", "[comm]") {
  for (const auto& kind : testing::usable_transports()) {
    auto ranks = all_ranks(3, kind.name);
    constexpr std::size_t kCount = 200'000;  // far more than a send takes without its receiver
    std::vector<std::int32_t> out(kCount, 7);
    std::vector<std::vector<std::int32_t>> in(9, std::vector<std::int32_t>(kCount, -1));
    group_begin();
    for (std::size_t from = 0; from < 3; from++) {
      group_begin();
      for (int to = 0; to < 3; to++) ranks[from].send(std::span<const std::int32_t>(out), to);
      group_end();
    }
    for (std::size_t to = 0; to < 3; to++)
      for (int from = 2; from >= 0; from--)
        ranks[to].recv(std::span(in[3 * to + static_cast<std::size_t>(from)]), from);
    group_end();
    CAPTURE(kind.name);
    for (const auto& buffer : in) CHECK(buffer == out);
  }
}

TEST_CASE("call groups: the first failure is told when all calls are over", "[comm]") {
  auto ranks = all_ranks(2, "inproc");
  auto others = all_ranks(2, "inproc");
  std::vector<float> a(10, 1), b(10, 1);
  const auto got = message_of([&] {
    group_begin();
    ranks[0].all_reduce(std::span(a).first(3));
    ranks[1].all_reduce(std::span(b).first(4));
    others[0].barrier();
    others[1].barrier();
    group_end();
  });
  CHECK_THAT(got, Contains("mismatch: ranks call different things"));
  CHECK(message_of([] { group_end(); }) == "invalid_argument: group_end: no group is open");
  // A wrong call throws at once; the destructor waits for calls begun before it.
  const auto wrong = message_of([&] {
    CallGroup group;
    others[0].broadcast(std::span(a), 0);
    others[1].broadcast(std::span(b), 0);
    others[1].broadcast(std::span(b), 2);
  });
  CHECK(wrong == "invalid_argument: broadcast: root 2 is not one of 2 ranks: expected 0 to 1");
  CHECK_THAT(message_of([&] {
               CallGroup group;
               others[0].split(0, 0);
             }),
             Contains("split: this call cannot be part of a group"));
  CallGroup after;
  others[0].barrier();
  others[1].barrier();
  after.end();
}

TEST_CASE("call groups: what fails in one that nobody ends is in the log", "[comm]") {
  auto ranks = all_ranks(2, "inproc");
  std::vector<std::int32_t> a(3), b(4);
  const auto log = testing::logged([&] {
    CallGroup group;
    ranks[0].all_reduce(std::span(a));
    ranks[1].all_reduce(std::span(b));
  });
  CHECK_THAT(log, Contains("a group of calls ended without end(), and a call failed: ranks "
                           "call different things"));
}

TEST_CASE("call groups: what came is told by asynchronous calls only", "[comm]") {
  for (const auto& kind : testing::usable_transports()) {
    CAPTURE(kind.name);
    auto ranks = all_ranks(2, kind.name);
    const std::vector<std::int32_t> out = {1, 2, 3};
    std::vector<std::int32_t> in(30);
    const auto place = [&](std::size_t i) { return std::span(in).subspan(10 * i, 10); };
    group_begin();
    CHECK(ranks[1].recv(place(0), 0) == Received{});
    const std::array requests = {MessageRequest::recv(place(1), 0)};
    CHECK(ranks[1].batch(requests).empty());
    const auto work = ranks[1].recv_async(Block(in.data() + 20, 10, DataType::int32), 0);
    for (int i = 0; i < 3; i++) ranks[0].send(std::span(out), 1);
    CHECK_THAT(message_of([&] { ranks[1].probe(); }),
               Contains("probe: this call cannot be part of a group"));
    CHECK_FALSE(ranks[0].try_probe());
    group_end();
    auto over = work;
    over.wait();
    CHECK(work.received() == Received{0, 0, 3, 12});
    CHECK((in[2] == 3 && in[12] == 3 && in[22] == 3));
  }
}

TEST_CASE("call groups: a group waits for ranks of other threads without spinning", "[comm]") {
  auto ranks = all_ranks(3, "tcp");
  std::vector<std::int32_t> a = {1}, b = {2}, c = {3};
  std::thread late([&] {
    testing::be_late(400ms);
    ranks[2].all_reduce(std::span(c));
  });
  const auto before = std::clock();
  group_begin();
  ranks[0].all_reduce(std::span(a));
  ranks[1].all_reduce(std::span(b));
  group_end();
  const double busy = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  late.join();
  CHECK((a[0] == 6 && b[0] == 6 && c[0] == 6));
  CHECK(busy < 0.2);
}
