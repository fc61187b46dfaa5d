// SPDX-License-Identifier: Apache-2.0
// Communicators of the ranks that are still alive. For killed ranks see killed_test.cpp.
#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <numeric>
#include <random>

#include "comm/on_transports.hpp"
#include "support/asleep.hpp"
#include "support/eventually.hpp"
#include "support/ranks.hpp"
#include "support/real_time.hpp"

using namespace std::chrono_literals;

namespace ccoll {
namespace {

using testing::expect;
using testing::message_of;
using testing::on_all_transports;
using testing::options_for;
using testing::run_ranks;

/// Checks that the communicator has these ranks of the job, in this order, and works.
void check_members(Communicator& group, const std::vector<int>& members) {
  expect(group.size() == static_cast<int>(members.size()),
         group.name() + " has " + std::to_string(group.size()) + " ranks");
  std::vector<int> all(members.size());
  const int mine = group.job_rank(group.rank());
  group.all_gather(std::span(&mine, 1), std::span(all));
  expect(all == members, "its ranks in order");
  for (const std::size_t count : {1, 1000, 100'000}) {
    std::vector<std::int64_t> data(count, mine + 1);
    group.all_reduce(std::span(data));
    const auto sum = std::accumulate(members.begin(), members.end(), std::int64_t{0}) +
                     static_cast<std::int64_t>(members.size());
    expect(data.front() == sum && data.back() == sum, "the sum is right");
  }
}

std::vector<int> up_to(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// A mismatch that breaks the communicator on every rank.
void break_by_mismatch(Communicator& world) {
  const auto error = message_of([&] {
    for (int round = 0; round < 1000; round++) {
      std::vector<int> data(world.rank() == 0 ? 2 : 3);
      world.all_reduce(std::span(data));
    }
  });
  expect(error.starts_with("mismatch: "), error);
}

/// Waits until a count comes to a number, and sets it back for the next job.
void comes_to(std::atomic<int>& count, int number) {
  expect(testing::eventually([&] { return count == number; }), "it takes too long");
  count = 0;
}

}  // namespace

TEST_CASE("shrink: of a healthy communicator it is a duplicate, again and again", "[comm]") {
  on_all_transports(3, [](Communicator& world) {
    auto first = world.shrink();
    auto second = world.shrink({.name = "second"});
    check_members(first, {0, 1, 2});
    check_members(world, {0, 1, 2});
    check_members(second, {0, 1, 2});
    expect(first.name() == "world/shrunk1" && second.name() == "second", first.name());
  });
}

TEST_CASE("shrink: after a failure that was no loss all ranks are in it", "[comm]") {
  on_all_transports(4, [](Communicator& world) {
    auto calm = world.duplicate();
    calm.barrier();  // all have theirs: a broken one cannot make any
    break_by_mismatch(world);
    auto all = world.shrink();
    check_members(all, {0, 1, 2, 3});
    calm.barrier();  // the next break must not hit anybody's last call
    const auto still = message_of([&] { world.barrier(); });
    expect(still.starts_with("mismatch: an earlier failure broke the communicator"), still);
    break_by_mismatch(all);
    auto again = all.shrink();
    check_members(again, {0, 1, 2, 3});
  });
}

TEST_CASE("shrink: after a time limit the late rank is in it", "[comm]") {
  std::atomic<int> told = 0;
  on_all_transports(3, [&](Communicator& world) {
    if (world.rank() == 2) comes_to(told, 2);
    const auto late = message_of([&] { world.barrier({.timeout = 100ms}); });
    if (world.rank() != 2) told++;
    expect(late.starts_with("timed_out: "), late);
    auto all = world.shrink();
    check_members(all, {0, 1, 2});
  });
}

TEST_CASE("shrink: ranks leave one after the other, until one is alone", "[comm]") {
  on_all_transports(4, [](Communicator& world) {
    // Rank 0 and the middle leave first: others were connected through them.
    const std::vector<int> leave = {0, 2, 3};
    auto members = up_to(4);
    auto group = world.shrink();
    world.close();
    for (const int next : leave) {
      if (group.job_rank(group.rank()) == next) return;
      std::erase(members, next);
      group = group.shrink();
      check_members(group, members);
    }
  });
}

TEST_CASE("shrink: random ranks leave while the others agree", "[comm][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < testing::by_effort(3, 10, 200); round++) {
    const int size = std::uniform_int_distribution(2, 6)(random);
    std::vector<bool> leaves(static_cast<std::size_t>(size));
    std::vector<int> delays(static_cast<std::size_t>(size));
    for (std::size_t rank = 1; rank < leaves.size(); rank++) {
      leaves[rank] = random() % 2 == 0;
      delays[rank] = static_cast<int>(random() % 3000);
    }
    std::shuffle(leaves.begin(), leaves.end(), random);
    std::vector<int> members;
    for (int rank = 0; rank < size; rank++)
      if (!leaves[static_cast<std::size_t>(rank)]) members.push_back(rank);
    const auto errors = run_ranks(size, options_for("shm"), [&](Communicator& world) {
      const auto rank = static_cast<std::size_t>(world.rank());
      testing::be_late(std::chrono::microseconds(delays[rank]));
      if (leaves[rank]) return;
      auto group = world.shrink();
      check_members(group, members);
    });
    CAPTURE(round, size);
    for (const auto& error : errors) CHECK(error == "");
  }
}

TEST_CASE("shrink: who has closed the communicator is gone, though the rank lives", "[comm]") {
  on_all_transports(4, [](Communicator& world) {
    auto part = world.duplicate();
    if (world.rank() == 1) {
      part.close();
    } else {
      auto left = part.shrink();
      check_members(left, {0, 2, 3});
    }
    check_members(world, {0, 1, 2, 3});
  });
}

TEST_CASE("shrink: of a part of the job it concerns that part alone", "[comm]") {
  on_all_transports(5, [](Communicator& world) {
    auto part = world.split(world.rank() % 2, -world.rank());
    if (world.rank() % 2 == 0) {
      break_by_mismatch(*part);
      auto again = part->shrink();
      check_members(again, {4, 2, 0});
    }
    check_members(world, {0, 1, 2, 3, 4});
  });
}

TEST_CASE("shrink: a rank that does not call it is named, and may come to the next attempt",
          "[comm]") {
  std::atomic<int> told = 0;
  on_all_transports(3, [&](Communicator& world) {
    if (world.rank() == 2) comes_to(told, 2);
    // Rank 1 has a longer limit but ends with rank 0; rank 2 ends when it comes.
    const auto limit = world.rank() == 0 ? 200ms : 20s;
    const auto begun = std::chrono::steady_clock::now();
    const auto error = message_of([&] { world.shrink({.timeout = limit}); });
    if (world.rank() != 2) told++;
    expect(std::chrono::steady_clock::now() - begun < 5s, "nobody waits longer");
    expect(error.starts_with("timed_out: shrink (attempt 1)") &&
               error.find("rank 2 (") != std::string::npos,
           error);
    auto all = world.shrink();
    check_members(all, {0, 1, 2});
  });
}

TEST_CASE("shrink: of two threads the second is refused, and closing ends the first", "[comm]") {
  std::atomic<int> closed = 0;
  const auto errors = run_ranks(2, options_for("inproc"), [&](Communicator& world) {
    if (world.rank() == 1) return comes_to(closed, 1);  // alive all the time
    std::promise<pid_t> thread;
    auto first = std::async(std::launch::async, [&] {
      thread.set_value(gettid());
      return message_of([&] { world.shrink(); });
    });
    expect(testing::falls_asleep(thread.get_future().get()), "it waits");
    const auto second = message_of([&] { world.shrink(); });
    expect(second == "invalid_argument: two threads shrink one communicator at once", second);
    world.close();
    closed++;
    const auto aborted = first.get();
    expect(aborted == "aborted: the communicator was destroyed", aborted);
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("shrink: it is refused in a group of calls, and with a limit below zero", "[comm]") {
  auto alone = Communicator::create(make_inproc_store(), 0, 1);
  {
    group_begin();
    const auto error = message_of([&] { alone.shrink(); });
    CHECK(error.starts_with("invalid_argument: shrink"));
    group_end();
  }
  CHECK(message_of([&] { alone.shrink({.timeout = -1ms}); }).starts_with("invalid_argument: "));
  check_members(alone, {0});
}

TEST_CASE("shrink: what was sent in the old communicator never comes in the new one", "[comm]") {
  on_all_transports(2, [](Communicator& world) {
    const int peer = 1 - world.rank();
    const int old = 1;
    world.send(std::span(&old, 1), peer);
    auto next = world.shrink();
    const int mine = 2;
    int came = 0;
    next.send(std::span(&mine, 1), peer);
    next.recv(std::span(&came, 1), peer);
    expect(came == 2, "the new one's message comes first");
    world.recv(std::span(&came, 1), peer);
    expect(came == 1, "the old one's is still there");
  });
}

}  // namespace ccoll
