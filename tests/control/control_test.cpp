// SPDX-License-Identifier: Apache-2.0
#include "control/control.hpp"

#include <asio/post.hpp>
#include <catch2/catch.hpp>
#include <future>
#include <mutex>
#include <optional>
#include <semaphore>
#include <set>
#include <stop_token>
#include <utility>

#include "control/tree.hpp"
#include "control/wire.hpp"
#include "core/patience.hpp"
#include "harness.hpp"
#include "support/real_time.hpp"

namespace ccoll::testing {
namespace {

using namespace std::chrono_literals;

std::vector<std::shared_ptr<Recorder>> listen(std::vector<Member>& members,
                                              std::uint64_t communicator,
                                              const Recorder::Compare& compare = {}) {
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (Member& member : members) {
    recorders.push_back(std::make_shared<Recorder>(compare));
    member.control->subscribe(communicator, recorders.back());
  }
  return recorders;
}

/// Hears of a stop before anyone else, as its callback is the youngest, and ends its wait at once.
/// Others hear of it once it is let_others_hear().
class FirstToHear final : public SmallStore {
 public:
  void set(std::string_view, std::string_view, Timeout) override {}
  std::vector<std::string> list(std::string_view, Timeout) override { return {}; }
  std::string get(std::string_view, Timeout timeout) override {
    if (!callback_) callback_.emplace(Patience::of_thread().stop, Tell{told_, others_});
    asked_.release();
    if (!told_.try_acquire_for(timeout)) throw Error(ErrorKind::timed_out, "no such key");
    throw Error(ErrorKind::aborted, "the wait was ended");
  }
  void await_question() { asked_.acquire(); }
  void let_others_hear() { others_.release(); }

 private:
  struct Tell {
    std::counting_semaphore<>&told, &others;
    void operator()() const {
      told.release();
      static_cast<void>(others.try_acquire_for(kPatience));
    }
  };
  std::counting_semaphore<> told_{0}, asked_{0}, others_{0};
  std::optional<std::stop_callback<Tell>> callback_;
};

/// Whether everything that these ranks have told each other has come: then no second notice
/// follows.
bool settle(const std::vector<Member>& members) {
  const auto on_the_way = [&] {
    std::uint64_t received = 0, sent = 0;
    for (const Member& member : members) {
      member.control->settle();
      received += member.control->statistics().received;
    }
    for (const Member& member : members) sent += member.control->statistics().sent;
    return sent - received;
  };
  // The reader of the last message may answer it.
  return eventually([&] { return on_the_way() == 0 && on_the_way() == 0; });
}

}  // namespace

TEST_CASE("a start that a stop token ends names its rank, whoever hears of it first", "[control]") {
  std::stop_source source;
  FirstToHear store;
  Member member = make_member(2, 3, 20s);
  std::jthread stops([&] {
    store.await_question();
    source.request_stop();
  });
  const HavingPatience having({.stop = source.get_token()});
  const auto joined = member.control->join(store);
  store.let_others_hear();
  REQUIRE_FALSE(joined);
  CHECK(joined.error().kind == ErrorKind::aborted);
  CHECK(joined.error().culprit == 2);
  CHECK(joined.error().message.find("stop token of rank 2") != std::string::npos);
}

TEST_CASE("all ranks end with the same table, for O(1) keys and messages each", "[control]") {
  const std::uint32_t size = GENERATE(1, 2, 3, 4, 5, 7, 8, 16, 64, 256);
  CAPTURE(size);
  CountingStore store;
  const auto start = Clock::now();
  auto members = join_all(size, store);
  CHECK(Clock::now() - start < 30s);
  for (const Member& member : members) {
    INFO((member.joined ? std::string() : member.joined.error().message));
    REQUIRE(member.joined);
  }
  CHECK(store.keys() == (size == 1 ? 0 : size));
  const auto& table = members[0].control->table();
  REQUIRE(table.size() == size);
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    CHECK(table[rank].device == rank);
    CHECK(table[rank].port == members[rank].listener->endpoint().port());
    CHECK(members[rank].control->table() == table);
    CHECK(members[rank].control->rank0_text() == "told by rank 0");
    // Two hellos, three welcomes, rows up, the table down to two.
    CHECK(members[rank].control->statistics().sent <= 8);
    CHECK(members[rank].control->statistics().received <= 8);
    CHECK(members[rank].control->statistics().refused == 0);
  }
  const auto recorders = listen(members, 1);
  leave_all(members);
  for (const auto& recorder : recorders) CHECK(recorder->failures().empty());
}

TEST_CASE("the store is not needed once ranks have joined", "[control]") {
  CountingStore store;
  auto members = join_all(8, store);
  CHECK(store.requests() <= 2 * 8);
  store.break_down();
  const auto recorders = listen(members, 7);
  members[5].control->flood(7, {ErrorKind::timed_out, "no patience", 2});
  for (const auto& recorder : recorders) CHECK(recorder->wait_for(1, 0, 10s));
}

TEST_CASE("a failure reaches every observer of its communicator exactly once", "[control]") {
  const std::uint32_t size = GENERATE(1, 2, 3, 8, 13);
  CAPTURE(size);
  CountingStore store;
  auto members = join_all(size, store);
  const auto ours = listen(members, 1);
  const auto others = listen(members, 2);
  const Failure failure{ErrorKind::mismatch, "rank 0 calls barrier, rank 1 all_reduce", 0};
  members[size / 2].control->flood(1, failure);
  for (const auto& recorder : ours) REQUIRE(recorder->wait_for(1, 0, 10s));
  CHECK(settle(members));
  for (const auto& recorder : ours) CHECK(recorder->failures() == std::vector{failure});
  for (const auto& recorder : others) CHECK(recorder->failures().empty());

  SECTION("one of every communicator reaches all observers") {
    members[size - 1].control->flood(kEveryCommunicator, {ErrorKind::aborted, "enough", {}});
    for (const auto& recorder : ours) CHECK(recorder->wait_for(2, 0, 10s));
    for (const auto& recorder : others) CHECK(recorder->wait_for(1, 0, 10s));
  }
  SECTION("who subscribes later is told at once") {
    members[0].control->flood(kEveryCommunicator, {ErrorKind::aborted, "enough", {}});
    for (const auto& recorder : others) REQUIRE(recorder->wait_for(1, 0, 10s));
    const auto late = std::make_shared<Recorder>();
    members[size - 1].control->subscribe(1, late);
    REQUIRE(late->wait_for(2, 0, 10s));
    const auto general = std::make_shared<Recorder>();
    members[size - 1].control->subscribe(kEveryCommunicator, general);
    REQUIRE(general->wait_for(1, 0, 10s));
    CHECK(general->failures()[0].message == "enough");
  }
  SECTION("who unsubscribed hears nothing more") {
    members[0].control->unsubscribe(2);
    members[0].control->flood(2, failure);
    if (size > 1) CHECK(others[size - 1]->wait_for(1, 0, 10s));
    CHECK(settle(members));
    CHECK(others[0]->failures().empty());
  }
}

TEST_CASE("who has left a communicator says so when asked, and nobody else does", "[control]") {
  CountingStore store;
  auto members = join_all(6, store);
  std::mutex mutex;
  std::vector<std::uint32_t> told;  // guarded by mutex
  const auto asker = std::make_shared<Recorder>([&](std::uint32_t peer, const Waiting& waiting) {
    const std::scoped_lock lock(mutex);
    if (waiting.signature.kind == kHasClosed) told.push_back(peer);
    return std::optional<Failure>();
  });
  const auto other = std::make_shared<Recorder>();
  members[0].control->subscribe(2, asker);
  // Rank 1 is in it, rank 4 will be: ranks 3 and 5 have left it, rank 5 to come back.
  for (const std::uint32_t rank : {1, 3, 5}) members[rank].control->subscribe(2, other);
  for (const std::uint32_t rank : {3, 5}) members[rank].control->unsubscribe(2);
  members[5].control->subscribe(2, other);
  members[4].control->subscribe(3, other);
  members[4].control->unsubscribe(3);
  REQUIRE(settle(members));
  const auto ask_all = [&] {
    Waiting question;
    question.communicator = 2;
    question.signature.kind = kAsksClosed;
    members[0].control->publish(question, {1, 2, 3, 4, 5});
    CHECK(settle(members));
    const std::scoped_lock lock(mutex);
    return std::exchange(told, {});
  };
  CHECK(ask_all() == std::vector<std::uint32_t>{3});
  // A question is not kept for who comes later.
  const auto late = std::make_shared<Recorder>();
  members[4].control->subscribe(2, late);
  CHECK(settle(members));
  CHECK(late->comparisons() == 0);
  members[4].control->unsubscribe(2);
  CHECK(settle(members));
  const auto leavers = ask_all();
  CHECK(std::set(leavers.begin(), leavers.end()) == std::set<std::uint32_t>{3, 4});
}

TEST_CASE("a communicator that all ranks fail at once is failed once on each", "[control]") {
  CountingStore store;
  auto members = join_all(16, store);
  const auto recorders = listen(members, 1);
  for (Member& member : members) member.control->flood(1, {ErrorKind::timed_out, "slow", {}});
  for (const auto& recorder : recorders) REQUIRE(recorder->wait_for(1, 0, 10s));
  CHECK(settle(members));
  for (const auto& recorder : recorders) CHECK(recorder->failures().size() == 1);
  // One flood over at most five connections, instead of sixteen.
  for (const Member& member : members) CHECK(member.control->statistics().sent <= 8 + 5);
}

TEST_CASE("leaving is heard by all and is no failure", "[control]") {
  CountingStore store;
  auto members = join_all(8, store);
  const auto recorders = listen(members, 1);
  const auto start = Clock::now();
  members[3].control->leave();
  members[3].control->leave();
  CHECK(Clock::now() - start < 5s);  // 1 s, plus time for a busy machine
  for (std::size_t rank = 0; rank < 8; ++rank)
    if (rank != 3) CHECK(recorders[rank]->wait_for(0, 1, 10s));
  members[0].control.reset();
  members[0].listener.reset();
  for (std::size_t rank = 1; rank < 8; ++rank)
    if (rank != 3) CHECK(recorders[rank]->wait_for(0, 2, 10s));
  leave_time(30ms);  // for a second notice: what was sent to those that have left never comes
  for (std::size_t rank = 1; rank < 8; ++rank) {
    CAPTURE(rank);
    CHECK(recorders[rank]->failures().empty());
    if (rank != 3) CHECK(recorders[rank]->departures() == std::vector<std::uint32_t>{3, 0});
  }
  SECTION("what is flooded right before still gets out, to ranks that lost a neighbour too") {
    members[6].control->flood(1, {ErrorKind::timed_out, "last words", {}});
    members[6].control.reset();
    for (const std::size_t rank : {1, 2, 4, 5, 7}) CHECK(recorders[rank]->wait_for(1, 3, 10s));
  }
}

TEST_CASE("an observer that throws ends every communicator, and not the process", "[control]") {
  CountingStore store;
  auto members = join_all(3, store);
  const auto recorders = listen(members, 1);
  const auto thrower = std::make_shared<Recorder>(
      [](std::uint32_t, const Waiting&) -> std::optional<Failure> { throw std::bad_alloc(); });
  Waiting waiting;
  waiting.communicator = 2;
  // A later word on the same path shows that it has arrived.
  const auto behind = std::make_shared<Recorder>();
  members[1].control->subscribe(3, behind);
  members[0].control->publish(waiting, {1});
  waiting.communicator = 3;
  members[0].control->publish(waiting, {1});
  REQUIRE(eventually([&] { return behind->comparisons() == 1; }));
  // Its neighbour's news is already waiting, so it throws while subscribing.
  members[1].control->subscribe(2, thrower);
  for (const auto& recorder : recorders) {
    REQUIRE(recorder->wait_for(1, 0, 10s));
    const Failure failure = recorder->failures().at(0);
    CHECK(failure.kind == ErrorKind::exhausted);
    CHECK(failure.message == "the control path of rank 1 failed: out of memory");
  }
}

TEST_CASE("a control may be destroyed on the service thread", "[control]") {
  CountingStore store;
  auto members = join_all(3, store);
  const auto recorders = listen(members, 1);
  std::promise<void> done;
  asio::post(members[1].service->context(), [&] {
    members[1].control.reset();
    done.set_value();
  });
  done.get_future().wait();
  CHECK(recorders[0]->wait_for(0, 1, 10s));
  CHECK(recorders[2]->wait_for(0, 1, 10s));
  CHECK(recorders[0]->failures().empty());
}

TEST_CASE("ranks that do not come are named to all that came, within the limit", "[control]") {
  struct Case {
    std::vector<std::uint32_t> came;
    const char* text;
  };
  const Case c = GENERATE(
      Case{{0, 1, 2, 4, 5, 6},
           "start-up: 2 of 8 ranks did not come within 0.5 s: ranks 3, 7 (known so far: ranks 0-2, "
           "4-6)"},
      Case{{0, 2, 3, 4, 5, 6, 7},
           "start-up: 1 of 8 ranks did not come within 0.5 s: rank 1 (known so far: ranks 0, 2-7)"},
      Case{{1, 2, 3, 4, 5, 6, 7},
           "start-up: 1 of 8 ranks did not come within 0.5 s: rank 0 (known so far: ranks 1-7)"},
      Case{{0},
           "start-up: 7 of 8 ranks did not come within 0.5 s: ranks 1-7 (known so far: rank 0)"});
  CountingStore store;
  auto members = join_all(c.came, 8, store, 500ms);
  for (const Member& member : members) {
    REQUIRE_FALSE(member.joined);
    CHECK(member.joined.error().message == c.text);
    CHECK(member.joined.error().kind == ErrorKind::timed_out);
    CHECK(member.seconds < 5);
  }
  SECTION("and a rank that comes too late learns why from its parent") {
    if (c.came.size() != 6) return;
    Member late = make_member(3, 8, 10s);
    const Status status = late.control->join(store);
    REQUIRE_FALSE(status);
    CHECK(status.error().message ==
          std::string("start-up: rank 1 refused the connection: ") + c.text);
  }
}

TEST_CASE("who comes with another token is told so, and the others why he may be missing",
          "[control]") {
  CountingStore store;
  auto zero = make_member(0, 2, 1s);
  auto joining = std::async(std::launch::async, [&] { return zero.control->join(store); });
  auto other = make_member(1, 2, 1s, "another token");
  const Status told = other.control->join(store);
  REQUIRE_FALSE(told);
  CHECK_THAT(told.error().message, Catch::Contains("the token differs"));
  const Status limit = joining.get();
  REQUIRE_FALSE(limit);
  CHECK(limit.error().kind == ErrorKind::timed_out);
  CHECK_THAT(limit.error().message,
             Catch::Contains("; a connection was refused meanwhile: tcp://127.0.0.1:") &&
                 Catch::Contains("the token differs"));
}

TEST_CASE("a start-up whose store breaks down fails on every rank", "[control]") {
  CountingStore store;
  store.break_down();
  auto members = join_all({0, 1}, 2, store, 500ms);
  for (const Member& member : members) {
    REQUIRE_FALSE(member.joined);
    CHECK(member.joined.error().kind == ErrorKind::peer_lost);
    CHECK_THAT(member.joined.error().message, Catch::Contains("the store broke down"));
  }
}

TEST_CASE("the key of an earlier job is not taken for a rank's", "[control]") {
  CountingStore store;
  {
    auto earlier = join_all(2, store);
    leave_all(earlier);
  }
  // The child starts first and finds the old key and a dead address; the parent overwrites it.
  Member child = make_member(1, 2, 20s);
  const auto before = store.requests();
  auto joined = std::async(std::launch::async, [&] { return child.control->join(store); });
  REQUIRE(eventually([&] { return store.requests() > before + 1; }));  // it has asked for the key
  Member parent = make_member(0, 2, 20s);
  const Status status = parent.control->join(store);
  INFO((status ? std::string() : status.error().message));
  CHECK(status);
  CHECK(joined.get());
}

TEST_CASE("the tree leads from every rank to every other", "[control][property]") {
  for (std::uint32_t size = 2; size <= 70; size++) {
    for (std::uint32_t from = 0; from < size; from++) {
      for (std::uint32_t to = 0; to < size; to++) {
        std::uint32_t at = from, hops = 0;
        while (at != to && hops++ <= 12) {
          const auto next = control::next_hop(at, to);
          if (!control::is_tree_edge(at, next) || next >= size) break;
          at = next;
        }
        CAPTURE(size, from, to, at, hops);
        REQUIRE(at == to);
      }
    }
  }
}

TEST_CASE("what a rank waits in reaches any rank, along the tree", "[control]") {
  CountingStore store;
  // Must outlive the members, whose service thread may still compare after all have heard.
  std::mutex mutex;
  std::vector<std::pair<std::uint32_t, std::string>> heard;
  auto members = join_all(9, store);
  const auto recorders =
      listen(members, 3, [&](std::uint32_t peer, const Waiting& waiting) -> std::optional<Failure> {
        const std::lock_guard lock(mutex);
        heard.emplace_back(peer, waiting.note);
        return std::nullopt;
      });
  // Rank 7 is below 3, which is below 1; rank 6 is below 2: four hops. Rank 7 does not send it to
  // itself.
  members[7].control->publish({3, 0, {}, "a note"}, {6, 0, 4, 7});
  for (const std::size_t rank : {6, 0, 4})
    CHECK(eventually([&] { return recorders[rank]->comparisons() == 1; }));
  CHECK(settle(members));
  for (const std::size_t rank : {1, 2, 3, 5, 7, 8}) CHECK(recorders[rank]->comparisons() == 0);
  // News gets around ranks that have left, too.
  for (const std::size_t rank : {3, 1}) members[rank].control->leave();
  CHECK(eventually([&] {
    members[7].control->publish({3, 0, {}, "a note"}, {0});
    return recorders[0]->comparisons() > 1;
  }));
  const std::lock_guard lock(mutex);
  for (const auto& each : heard) CHECK(each == std::pair<std::uint32_t, std::string>(7, "a note"));
}

TEST_CASE("neighbours compare what they wait in, and what they find reaches all", "[control]") {
  CountingStore store;
  Waiting waiting;
  waiting.communicator = 9;
  waiting.sequence = 41;
  waiting.signature.count = 100;
  waiting.signature.root = 3;
  // Must outlive the members, whose service thread may still compare after all have heard.
  std::mutex mutex;
  std::set<std::uint32_t> heard_from;
  auto members = join_all(8, store);
  const auto compare = [&](std::uint32_t peer, const Waiting& theirs) -> std::optional<Failure> {
    const std::lock_guard lock(mutex);
    heard_from.insert(peer);
    if (theirs.signature == waiting.signature && theirs.sequence == 41) return std::nullopt;
    return Failure{ErrorKind::mismatch, "they differ", peer};
  };
  SECTION("equal signatures say nothing") {
    const auto recorders = listen(members, 9, compare);
    members[4].control->publish(waiting, {3, 5});
    CHECK(eventually(
        [&] { return recorders[3]->comparisons() == 1 && recorders[5]->comparisons() == 1; }));
    CHECK(settle(members));
    for (std::size_t rank = 0; rank < 8; ++rank)
      CHECK(recorders[rank]->comparisons() == (rank == 3 || rank == 5 ? 1 : 0));
    for (const auto& recorder : recorders) CHECK(recorder->failures().empty());
  }
  SECTION("a difference fails the communicator everywhere") {
    const auto recorders = listen(members, 9, compare);
    Waiting other = waiting;
    other.signature.count = 101;
    members[7].control->publish(other, {0, 6});
    for (const auto& recorder : recorders) REQUIRE(recorder->wait_for(1, 0, 10s));
    CHECK(recorders[2]->failures()[0] == Failure{ErrorKind::mismatch, "they differ", 7});
  }
  SECTION("also where the neighbour subscribes later") {
    Waiting other = waiting;
    other.sequence = 42;
    members[0].control->publish(other, {1, 7});
    CHECK(settle(members));  // nobody hears it yet
    const auto recorders = listen(members, 9, compare);
    for (const auto& recorder : recorders) REQUIRE(recorder->wait_for(1, 0, 10s));
  }
  const std::lock_guard lock(mutex);
  CHECK(heard_from.size() >= 1);
}

}  // namespace ccoll::testing
