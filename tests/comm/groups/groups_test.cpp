// SPDX-License-Identifier: Apache-2.0
// Communicators made from communicators: splits, subgroups, names, and effects on each other.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <latch>
#include <numeric>
#include <random>

#include "support/asleep.hpp"
#include "support/effort.hpp"
#include "support/eventually.hpp"
#include "support/ranks.hpp"
#include "support/real_time.hpp"
#include "usable_transports.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using testing::eventually;
using testing::expect;
using testing::message_of;
using testing::options_for;
using testing::reduced;
using testing::run_ranks;

namespace {

std::string text_of(const std::vector<std::int32_t>& ranks) {
  std::string text;
  for (const auto rank : ranks) text += std::to_string(rank) + " ";
  return text;
}

/// Checks that `part` has exactly the job's ranks `expected`, in that order, and works.
void check_members(Communicator& part, const std::vector<int>& expected) {
  const auto n = static_cast<std::size_t>(part.size());
  std::vector<std::int32_t> all(n, -1);
  const std::vector<std::int32_t> mine = {part.job_rank(part.rank())};
  part.all_gather(std::span<const std::int32_t>(mine), std::span(all));
  expect(all == expected, part.name() + " has the ranks " + text_of(all));
  std::int32_t sum = mine[0];
  part.all_reduce(std::span(&sum, 1));
  expect(sum == std::accumulate(all.begin(), all.end(), 0), part.name() + ": a sum is wrong");
  for (int rank = 0; rank < part.size(); rank++)
    expect(part.job_rank(rank) == expected[static_cast<std::size_t>(rank)], "job_rank");
}

/// Splits at random, and then the parts, `depth` times. Every rank draws all ranks' choices, so it
/// knows the result. `members`: the job's ranks of `communicator`, in order.
void split_at_random(Communicator& communicator, const std::vector<int>& members,
                     std::uint64_t seed, int depth) {
  if (depth == 0) return;
  std::mt19937_64 random(seed);
  struct Wish {
    int color, key, rank;
  };
  std::vector<Wish> wishes;
  for (int rank = 0; rank < static_cast<int>(members.size()); rank++)
    wishes.push_back(
        {static_cast<int>(random() % 4) - 1, static_cast<int>(random() % 5) - 2, rank});
  const auto own = wishes[static_cast<std::size_t>(communicator.rank())];
  auto part = communicator.split(own.color, own.key);
  expect(part.has_value() == (own.color != kNoColor), "a part for kNoColor, or none for a colour");
  if (!part) return;
  std::stable_sort(wishes.begin(), wishes.end(),
                   [](const Wish& a, const Wish& b) { return a.key < b.key; });
  std::vector<int> expected;
  for (const auto& wish : wishes)
    if (wish.color == own.color) expected.push_back(members[static_cast<std::size_t>(wish.rank)]);
  check_members(*part, expected);
  for (int rank = 0; rank < part->size(); rank++) {
    const auto above = part->rank_in(communicator, rank);
    expect(above && communicator.job_rank(*above) == part->job_rank(rank), "rank_in upwards");
    expect(communicator.rank_in(*part, *above) == rank, "rank_in downwards");
  }
  split_at_random(*part, expected, seed * 31 + static_cast<std::uint64_t>(own.color), depth - 1);
}

}  // namespace

TEST_CASE("groups: random splits of splits have the ranks and the order that were asked for",
          "[comm][property]") {
  const auto seed = std::random_device{}();
  const std::vector<int> sizes =
      reduced() ? std::vector{1, 2, 5} : std::vector{1, 2, 3, 4, 5, 7, 8, 11, 16};
  for (const auto& kind : testing::usable_transports()) {
    for (const int size : sizes) {
      const auto errors = run_ranks(size, options_for(kind.name), [&](Communicator& communicator) {
        std::vector<int> members(static_cast<std::size_t>(size));
        std::iota(members.begin(), members.end(), 0);
        for (std::uint64_t round = 0; round < 3; round++)
          split_at_random(communicator, members, seed + round, 3);
        check_members(communicator, members);
      });
      CAPTURE(kind.name, size, seed);
      for (const auto& error : errors) CHECK(error == "");
    }
  }
}

TEST_CASE("groups: random subgroups of subgroups need only their members", "[comm][property]") {
  const auto seed = std::random_device{}();
  for (const auto& kind : testing::usable_transports()) {
    const int size = reduced() ? 4 : 9;
    const auto errors = run_ranks(size, options_for(kind.name), [&](Communicator& communicator) {
      std::mt19937_64 random(seed);  // the same on every rank
      for (int round = 0; round < 12; round++) {
        std::vector<int> list(static_cast<std::size_t>(size));
        std::iota(list.begin(), list.end(), 0);
        std::shuffle(list.begin(), list.end(), random);
        list.resize(1 + random() % list.size());
        auto inner = list;
        std::reverse(inner.begin(), inner.end());
        inner.resize((inner.size() + 1) / 2);
        if (std::count(list.begin(), list.end(), communicator.rank()) == 0) continue;
        auto group = communicator.subgroup(list);
        check_members(group, list);
        if (std::count(inner.begin(), inner.end(), communicator.rank()) == 0) continue;
        std::vector<int> there;
        for (const int rank : inner) there.push_back(*communicator.rank_in(group, rank));
        auto nested = group.subgroup(there);
        check_members(nested, inner);
      }
    });
    CAPTURE(kind.name, seed);
    for (const auto& error : errors) CHECK(error == "");
  }
}

TEST_CASE("groups: the same list makes a new communicator each time", "[comm]") {
  const auto errors = run_ranks(3, options_for("inproc"), [](Communicator& communicator) {
    if (communicator.rank() == 1) return;
    auto first = communicator.subgroup({2, 0}), second = communicator.subgroup({2, 0});
    std::vector<std::int32_t> a = {1}, b = {10};
    auto work = first.all_reduce_async(std::span(a));
    second.all_reduce(std::span(b));
    work.wait();
    expect(a[0] == 2 && b[0] == 20, "they mix");
    expect(first.rank() == (communicator.rank() == 2 ? 0 : 1), "the order of the list");
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("groups: bad lists and colours are refused before anything is sent", "[comm]") {
  const auto errors = run_ranks(3, options_for("inproc"), [](Communicator& communicator) {
    const auto refuse = [&](std::vector<int> list, const std::string& wanted) {
      const auto got = message_of([&] { communicator.subgroup(list); });
      expect(got == "invalid_argument: " + wanted, got);
    };
    refuse({0, 1, 2, 3}, "subgroup: rank 3 is not one of 3 ranks: expected 0 to 2");
    refuse({0, -1}, "subgroup: rank -1 is not one of 3 ranks: expected 0 to 2");
    refuse({0, 1, 2, 1}, "subgroup: rank 1 is in the list twice");
    refuse({}, "subgroup: the list is empty; it names its ranks");
    if (communicator.rank() == 2)
      refuse({0, 1},
             "subgroup: rank 2 calls it but is not in the list of ranks 0, 1; only those "
             "in it call");
    const auto colour = message_of([&] { communicator.split(-2, 0); });
    expect(colour ==
               "invalid_argument: split: colour -2 is negative; colours are at least 0, or "
               "kNoColor",
           colour);
    expect(!communicator.split(kNoColor, 0), "a part without a colour");
    communicator.barrier();
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("groups: members with different lists learn both, and the parent is as good as before",
          "[comm]") {
  for (const auto& kind : testing::usable_transports()) {
    const auto start = std::chrono::steady_clock::now();
    const auto errors = run_ranks(4, options_for(kind.name), [](Communicator& communicator) {
      if (communicator.rank() != 3) {
        const std::vector<int> list =
            communicator.rank() == 1 ? std::vector{0, 1, 2, 3} : std::vector{2, 0, 1};
        const auto got = message_of([&] { communicator.subgroup(list); });
        const auto odd = got.find("rank 1 one of ranks 0-3");
        const auto other = std::min(got.find("rank 0 one of ranks 2, 0, 1"),
                                    got.find("rank 2 one of ranks 2, 0, 1"));
        expect(
            got.starts_with("mismatch: ") && odd != std::string::npos && other != std::string::npos,
            got);
      }
      communicator.barrier();
      auto all = communicator.subgroup({3, 2, 1, 0});
      check_members(all, {3, 2, 1, 0});
      // Ranks try one of the two lists again, whether or not they have tried it before.
      for (const auto& list : {std::vector{0, 1, 2, 3}, std::vector{2, 0, 1}}) {
        if (list.size() == 3 && communicator.rank() == 3) continue;
        const auto got = message_of([&] { communicator.subgroup(list); });
        expect(got.starts_with("mismatch: "), got);
      }
      communicator.barrier();
    });
    CAPTURE(kind.name);
    for (const auto& error : errors) CHECK(error == "");
    CHECK(std::chrono::steady_clock::now() - start < 10s);
  }
}

TEST_CASE("groups: a subgroup that waits ends when its communicator breaks", "[comm]") {
  for (const auto& kind : testing::usable_transports()) {
    const auto errors = run_ranks(3, options_for(kind.name), [](Communicator& communicator) {
      const auto begun = std::chrono::steady_clock::now();
      const auto got = message_of([&] {
        // Rank 1 never comes, because its calls differ from rank 2's.
        if (communicator.rank() == 0) static_cast<void>(communicator.subgroup({0, 1}));
        if (communicator.rank() == 1) communicator.barrier();
        std::vector<int> one(1);
        if (communicator.rank() == 2) communicator.all_reduce(one);
      });
      expect(got.starts_with("mismatch: "), got);
      // The error must come before the time limit.
      expect(std::chrono::steady_clock::now() - begun < 10s, "it took long");
    });
    CAPTURE(kind.name);
    for (const auto& error : errors) CHECK(error == "");
  }
}

TEST_CASE(
    "groups: ranks of a part that call different things are found out, also where the part's "
    "neighbours are none of the job",
    "[comm]") {
  for (const auto& kind : testing::usable_transports()) {
    const auto start = std::chrono::steady_clock::now();
    const auto errors = run_ranks(8, options_for(kind.name), [](Communicator& communicator) {
      auto part = communicator.split(communicator.rank() % 2, -communicator.rank());
      std::vector<float> data(12, 1);
      if (communicator.rank() % 2 == 0) {
        // Rank 6 is rank 0 here, rank 0 is rank 3. All wait for different roots: none sends.
        part->broadcast(std::span(data), (part->rank() + 1) % 4);
      } else {
        for (int round = 0; round < 20; round++) part->all_reduce(std::span(data), ReduceOp::max);
      }
    });
    CAPTURE(kind.name);
    for (std::size_t rank = 0; rank < 8; rank += 2) {
      CHECK_THAT(errors[rank],
                 Contains("world/split1:0: ") && Contains("ranks call different things"));
      CHECK_THAT(errors[rank], Contains("broadcast of 12 float32, root"));
    }
    for (std::size_t rank = 1; rank < 8; rank += 2) CHECK(errors[rank] == "");
    CHECK(std::chrono::steady_clock::now() - start < 10s);
  }
}

TEST_CASE("groups: what breaks one communicator leaves the others of the same ranks alone",
          "[comm]") {
  for (const auto& kind : testing::usable_transports()) {
    const auto errors = run_ranks(4, options_for(kind.name), [](Communicator& communicator) {
      GroupOptions options;
      options.name = "fragile";
      auto fragile = communicator.duplicate(options);
      auto half = communicator.split(communicator.rank() / 2, 0);
      std::vector<float> data(8, 1);
      const auto got = message_of(
          [&] { fragile.all_reduce(std::span(data).first(communicator.rank() == 1 ? 3 : 4)); });
      expect(got.starts_with("mismatch: fragile: ") &&
                 got.find("ranks call different things") != std::string::npos,
             got);
      const auto late =
          message_of([&] { half->recv(std::span(data), half->rank(), 0, {.timeout = 50ms}); });
      expect(late.starts_with("timed_out: world/split2:"), late);
      communicator.all_reduce(std::span(data));
      // The broken ones report it; their parent can make new ones.
      const auto again = message_of([&] { fragile.barrier(); });
      expect(again.find("an earlier failure broke the communicator") != std::string::npos, again);
      auto fresh = communicator.split(communicator.rank() % 2, 0);
      fresh->barrier();
    });
    CAPTURE(kind.name);
    for (const auto& error : errors) CHECK(error == "");
  }
}

TEST_CASE("groups: a label stands in the errors about its call", "[comm]") {
  const auto errors = run_ranks(2, options_for("inproc"), [](Communicator& communicator) {
    std::vector<float> data(8, 1);
    const auto refused = message_of([&] {
      communicator.all_to_all(std::span<const float>(data).first(7), std::span(data).first(7),
                              {.label = "shuffle"});
    });
    expect(refused.find("7 elements do not divide evenly among 2 ranks") != std::string::npos,
           refused);
    const auto bad =
        message_of([&] { communicator.broadcast(std::span(data), 5, {.label = "parameters"}); });
    expect(bad ==
               "invalid_argument: \"parameters\": broadcast: root 5 is not one of 2 ranks: "
               "expected 0 to 1",
           bad);
    const auto* const label = communicator.rank() == 1 ? "odd" : "even";
    const auto got = message_of([&] {
      communicator.all_reduce(std::span(data).first(communicator.rank() == 1 ? 3 : 4),
                              ReduceOp::sum, {.label = label});
    });
    // A mismatch says where both calls belong, too.
    expect(got.starts_with(fmt::format("mismatch: \"{}\": ", label)) &&
               got.find("ranks call different things") != std::string::npos,
           got);
    for (const auto* side : {"rank 0 all_reduce of 4 float32, sum (call 0, \"even\")",
                             "rank 1 all_reduce of 3 float32, sum (call 0, \"odd\")"})
      expect(got.find(side) != std::string::npos, got);
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("groups: names are inherited, made up, or given", "[comm]") {
  auto options = options_for("inproc");
  options.name = "job";
  const auto errors = run_ranks(2, options, [](Communicator& communicator) {
    expect(communicator.name() == "job", communicator.name());
    expect(communicator.duplicate().name() == "job/copy1", "a copy's name");
    expect(communicator.split(3, 0)->name() == "job/split2:3", "a part's name");
    expect(communicator.subgroup({1, 0}).name() == "job/group(ranks 1, 0)", "a group's name");
    GroupOptions given;
    given.name = "tensor";
    auto part = communicator.split(0, 0, given);
    const auto got = message_of([&] { part->send(std::span<const float>(), 2); });
    expect(got == "invalid_argument: tensor: send: rank 2 is not one of 2 ranks: expected 0 to 1",
           got);
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("groups: ranks translate between communicators of one job only", "[comm]") {
  const auto errors = run_ranks(4, options_for("inproc"), [](Communicator& communicator) {
    auto halves = communicator.split(communicator.rank() / 2, -communicator.rank());
    expect(halves->rank_in(communicator, 0) == (communicator.rank() / 2) * 2 + 1, "upwards");
    expect(communicator.rank_in(*halves, 3 - (communicator.rank() / 2) * 2 - 1) == std::nullopt,
           "a rank that is not there");
    auto alone = Communicator::create(Environment{}, {});
    const auto got = message_of([&] { (void)alone.rank_in(communicator, 0); });
    expect(got.find("not made from the same start-up") != std::string::npos, got);
    communicator.barrier();
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("groups: two threads in blocking collectives of one communicator are told", "[comm]") {
  std::latch told(1);
  const auto errors = run_ranks(2, options_for("inproc"), [&](Communicator& communicator) {
    if (communicator.rank() == 1) {
      told.wait();
      return communicator.barrier();
    }
    std::atomic<pid_t> id = 0;
    std::string got_first;
    std::thread first([&] {
      id = gettid();
      id.notify_one();
      got_first = message_of([&] { communicator.barrier(); });
    });
    id.wait(0);
    const bool asleep = testing::falls_asleep(id);
    std::vector<float> data(4);
    const auto got = message_of([&] { communicator.all_reduce(std::span(data)); });
    told.count_down();
    first.join();
    expect(asleep && got_first == "no error", got_first);
    expect(got.starts_with("invalid_argument: two threads are in blocking collectives of one "
                           "communicator at once: barrier (call 0) has not returned, and "
                           "all_reduce of 4 float32, sum was called"),
           got);
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("groups: a thousand splits leave nothing behind", "[comm][stress]") {
  const auto descriptors = [] {
    const std::filesystem::directory_iterator open("/proc/self/fd");
    return std::distance(begin(open), end(open));
  };
  for (const auto& kind : testing::usable_transports()) {
    std::ptrdiff_t before = 0;
    const auto errors = run_ranks(3, options_for(kind.name), [&](Communicator& communicator) {
      communicator.barrier();
      if (communicator.rank() == 0) before = descriptors();
      communicator.barrier();
      const int rounds = reduced() ? 50 : 1000;
      for (int round = 0; round < rounds; round++) {
        std::vector<std::int32_t> data(static_cast<std::size_t>(round % 3), 1);
        auto part = communicator.split((communicator.rank() + round) % 2, 0);
        if (round % 4 < 2) part->all_reduce(std::span(data));
        // Only one rank makes the call: the others close without ever opening its links.
        if (round % 4 == 2 && part->rank() == 0)
          part->send(std::span<const std::int32_t>(data), part->size() - 1);
        if (round % 4 == 3 && part->rank() == 0) part->broadcast_async(data, 0);
      }
      communicator.barrier();
      if (communicator.rank() != 0) return communicator.barrier();
      // Data in flight when its communicator ended is dropped on arrival. A link that exchanges its
      // doorbells holds them and the sockets for them.
      auto after = before;
      static_cast<void>(eventually([&] { return (after = descriptors()) <= before + 8; }, 20s));
      communicator.barrier();
      expect(after <= before + 8, fmt::format("{} descriptors, then {}", before, after));
    });
    CAPTURE(kind.name);
    for (const auto& error : errors) CHECK(error == "");
  }
}

TEST_CASE("groups: the loss of a rank breaks the communicators that it was in, and no other",
          "[.fork]") {
  // The thread sanitizer cannot follow a process that forks and then starts threads.
  if (reduced()) return;
  const char* const asked = std::getenv("CCOLL_TEST_TRANSPORT");
  const auto options = options_for(asked == nullptr ? "tcp" : asked);
  // The child comes first: making an id starts a thread, which the child would lack.
  int hand_over[2];
  REQUIRE(pipe(hand_over) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  UniqueId id;
  if (child == 0) {
    if (read(hand_over[0], id.bytes.data(), id.bytes.size()) != ssize_t(id.bytes.size())) _exit(2);
    const auto met = testing::run_threads(1, [&](int) {
      auto world = Communicator::create(id, 2, 3, options);
      auto alone = world.split(1, 0);
      world.barrier();
      _exit(0);  // without a goodbye
    });
    _exit(1);
  }
  id = UniqueId::create();
  CHECK(write(hand_over[1], id.bytes.data(), id.bytes.size()) == ssize_t(id.bytes.size()));
  const auto errors = testing::run_threads(2, [&](int rank) {
    auto world = Communicator::create(id, rank, 3, options);
    auto pair = world.split(0, -rank);
    const auto lost = message_of([&] {
      for (int round = 0; round < 1000; round++) world.barrier();
    });
    expect(lost.starts_with("peer_lost: ") && lost.find("rank 2") != std::string::npos, lost);
    for (int round = 0; round < 20; round++) {
      check_members(*pair, {1, 0});
      testing::leave_time(20ms);  // for the loss to do harm
    }
    // The survivors can go on, even from the broken communicator.
    auto left = world.subgroup({0, 1});
    check_members(left, {0, 1});
  });
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  close(hand_over[0]);
  close(hand_over[1]);
  for (const auto& error : errors) CHECK(error == "");
}
