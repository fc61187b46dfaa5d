// SPDX-License-Identifier: Apache-2.0
// One rank's part in a start-up: whom it calls, what it passes on, and when it is over.
#include "control/start_up.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "control/one_rank.hpp"
#include "control/tree.hpp"

namespace ccoll::control {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using Ranks = std::vector<std::uint32_t>;

/// A rank that starts up, with no pauses where it looks for others.
struct StartingRank final : OneRank, StartUp::Owner {
  Progress progress;
  int times_left = 0;
  Ranks all_welcomed;
  Reconnection reconnection{caller,   roster,       stage, edges,     absences,
                            flooding, owner->tasks, *this, {0ms, 0ms}};
  StartUp start_up{caller,       stage,        roster,  edges,    flooding,
                   reconnection, owner->tasks, traffic, progress, *this};

  StartingRank(std::uint32_t self, std::uint32_t of) : OneRank(self, of) {}

  // As the hub does.
  Status received(Edge& edge, const Frame& frame) override {
    if (frame.type == Type::gathered) return start_up.gathered(edge.peer(), frame.body);
    if (frame.type == Type::table) return start_up.table(edge.peer(), frame.body);
    return {};
  }
  void job_failed(const Failure& failure) override { start_up.fail_for_all(failure); }
  std::shared_ptr<Edge> meet(net::Stream stream, std::uint32_t peer, const PeerAddress& address,
                             const std::string& greeting) override {
    return OneRank::meet(std::move(stream), peer, address, greeting);
  }
  void welcomed(Edge& edge) override { all_welcomed.push_back(edge.peer()); }
  void finish_leaving() override {}
  void leave() override {
    times_left++;
    stage.leave();
  }

  void begin() { start_up.begin(shown + 1h); }
  /// A peer has called, and was let in.
  void be_called(std::uint32_t peer) {
    roster.set(peer, others.at(peer).row());
    connect(peer);
    start_up.advance();
  }
  std::optional<Status> outcome() { return progress.state.lock()->outcome; }
  /// The result of an attempt in which the callee gives that answer; none: it hangs up.
  Status attempt(std::uint32_t peer, const std::function<void()>& call, const std::string& answer) {
    auto& callee = others.at(peer);
    const auto at = callee.calls();
    progress.state.lock()->attempt.reset();
    call();
    REQUIRE(until([&] { return callee.calls() > at && !callee.heard(at).empty(); }));
    if (answer.empty())
      callee.hang_up(at);
    else
      callee.say(at, answer);
    return attempted();
  }
  Status attempted() {
    std::optional<Status> result;
    REQUIRE(until([&] { return (result = progress.state.lock()->attempt).has_value(); }));
    return *result;
  }
  Status call_parent(const std::string& answer) {
    const auto parent = parent_of(rank);
    return attempt(
        parent, [&] { start_up.call_parent(others.at(parent).row()); }, answer);
  }
  Row row_of(std::uint32_t each) const {
    return each == rank ? caller.row() : others.at(each).row();
  }
  std::vector<Row> rows_of(const Ranks& ranks) const {
    std::vector<Row> rows;
    for (const auto each : ranks) rows.push_back(row_of(each));
    return rows;
  }
};

/// The whole start-up of one rank, with events in any order that can be.
class WholeStart {
 public:
  WholeStart(std::uint32_t self, std::uint32_t size) : one_(self, size) {
    for (const auto child : children_of(self, size)) {
      callers_.insert(child);
      silent_.insert(child);
    }
    if (const auto before = predecessor_of(self, size); calls_successor(before, size))
      callers_.insert(before);
    peers_ = callers_;
    if (self != 0) peers_.insert(parent_of(self));
    if (calls_successor(self, size)) peers_.insert(successor_of(self, size));
  }

  void run(std::mt19937& random) {
    one_.begin();
    if (one_.size > 1) CHECK_FALSE(one_.outcome());
    while (const int events = possible()) {
      happen(static_cast<int>(random() % events));
      one_.service->turn();
      if (possible() > 0) CHECK_FALSE(one_.outcome());
      check_standing();
    }
    check_end();
  }

 private:
  /// How many events may be next. First callers come, then they report, then the parent answers.
  int possible() const {
    return static_cast<int>(callers_.size() + reporters().size()) + awaits_parent();
  }
  bool awaits_parent() const { return one_.rank != 0 && !has_parent_; }
  Ranks reporters() const {
    Ranks ranks;
    for (const auto child : silent_)
      if (!callers_.contains(child)) ranks.push_back(child);
    return ranks;
  }
  void happen(int event) {
    const auto callers = static_cast<int>(callers_.size());
    if (event < callers) {
      const auto caller = *std::next(callers_.begin(), event);
      one_.be_called(caller);
      callers_.erase(caller);
    } else if (const auto ready = reporters(); event < callers + static_cast<int>(ready.size())) {
      const auto child = ready[event - callers];
      one_.others.at(child).say(0, encode_rows(one_.rows_of(subtree_of(child, one_.size))));
      silent_.erase(child);
      REQUIRE(one_.until([&] { return !one_.roster.unreported().contains(child); }));
    } else {
      CHECK(one_.call_parent(encode_welcome()));
      CHECK(one_.roster[parent_of(one_.rank)] == one_.row_of(parent_of(one_.rank)));
      has_parent_ = true;
    }
  }
  void check_standing() const {
    const Standing standing = one_.start_up.standing();
    CHECK(standing.unreported == Ranks(silent_.begin(), silent_.end()));
    CHECK(standing.parent_met == !awaits_parent());
    for (const auto peer : callers_) CHECK(std::ranges::count(standing.unmet, peer) == 1);
  }
  /// All have come but the ring successor, and the table.
  void check_end() {
    Ranks all;
    for (std::uint32_t each = 0; each < one_.size; each++) all.push_back(each);
    const auto rows = one_.rows_of(all);
    const std::string text = one_.rank == 0 ? "told by rank 0" : "told by another";
    if (one_.rank != 0) {
      auto& parent = one_.others.at(parent_of(one_.rank));
      REQUIRE(one_.until([&] { return parent.heard(0).size() == 2; }));
      CHECK(parent.heard(0)[1].type == Type::gathered);
      const auto subtree = subtree_of(one_.rank, one_.size);
      CHECK(decode_rows(parent.heard(0)[1].body, subtree.size()) == one_.rows_of(subtree));
      CHECK_FALSE(one_.outcome());
      parent.say(0, encode_table(rows, text));
    }
    if (calls_successor(one_.rank, one_.size)) {
      auto& next = one_.others.at(successor_of(one_.rank, one_.size));
      REQUIRE(one_.until([&] { return next.calls() == 1 && !next.heard(0).empty(); }));
      CHECK_FALSE(one_.outcome());
      next.say(0, encode_welcome());
    }
    REQUIRE(one_.until([&] { return one_.outcome().has_value(); }));
    CHECK(*one_.outcome());
    const auto reached = one_.progress.state.lock();
    CHECK(reached->rank0_text == text);
    CHECK(reached->job == rows[0].nonce);
    REQUIRE(reached->table.size() == rows.size());
    for (const auto each : all) CHECK(reached->table[each] == rows[each].address);
    for (const auto child : children_of(one_.rank, one_.size)) {
      const auto& heard = one_.others.at(child).heard(0);
      REQUIRE(heard.size() == 1);
      const auto table = decode_table(heard[0].body, one_.size);
      REQUIRE(table);
      CHECK((table->rows == rows && table->rank0_text == text));
    }
    for (auto& [each, callee] : one_.others) {
      CHECK(one_.edges.contains(each) == peers_.contains(each));
      CHECK(callee.calls() == (peers_.contains(each) ? 1 : 0));
    }
    CHECK(one_.stage.has_joined());
    CHECK(one_.times_left == 0);
  }

  StartingRank one_;
  std::set<std::uint32_t> callers_;  ///< who has yet to call
  std::set<std::uint32_t> silent_;   ///< the children that have yet to report
  std::set<std::uint32_t> peers_;
  bool has_parent_ = false;
};

}  // namespace

TEST_CASE("start-up: it is over when all peers are met and the table is there, in any order",
          "[unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (std::uint32_t size = 1; size <= 9; size++) {
    for (std::uint32_t rank = 0; rank < size; rank++) {
      CAPTURE(size, rank);
      for (int trial = 0; trial < 2; trial++) WholeStart(rank, size).run(random);
    }
  }
}

TEST_CASE("start-up: whoever has left before it is over is replaced afterwards", "[unit]") {
  StartingRank one(3, 6);
  one.begin();
  one.be_called(2);
  CHECK(one.call_parent(encode_welcome()));
  one.others.at(1).say(0, encode_table(one.rows_of({0, 1, 2, 3, 4, 5}), ""));
  auto& next = one.others.at(4);
  REQUIRE(one.until([&] { return next.calls() == 1 && !next.heard(0).empty(); }));
  one.flooding.part_with(4, Flooding::kNobody);
  CHECK(one.others.at(5).calls() == 0);
  next.say(0, encode_welcome());
  CHECK(one.until([&] { return one.others.at(5).calls() == 1; }));
  CHECK((one.outcome() && *one.outcome()));
}

TEST_CASE("start-up: an attempt that fails tells why, and others may follow", "[unit]") {
  StartingRank one(1, 4);
  one.begin();
  Status told;
  std::string why;
  SECTION("the parent refuses for now") {
    told = one.call_parent(encode(Refusal{false, {ErrorKind::timed_out, "not now", {}}}));
    why = "start-up: rank 0 refused the connection: not now";
  }
  SECTION("the parent hangs up") {
    told = one.call_parent({});
    why = "rank 0 did not answer our hello: ";
  }
  SECTION("the parent says what is no answer") {
    told = one.call_parent(encode_beat(1));
    why = "rank 0 sent a malformed answer to our hello";
  }
  SECTION("nobody listens") {
    one.others.at(0).stop();
    one.start_up.call_parent(one.row_of(0));
    told = one.attempted();
    why = "no rank 0 at 127.0.0.1:";
  }
  REQUIRE_FALSE(told);
  CHECK_THAT(told.error().message, StartsWith(why));
  CHECK(one.start_up.standing().last_trouble == told.error().message);
  CHECK_FALSE(one.outcome());
  CHECK(one.times_left == 0);
  CHECK(one.edges.empty());
}

TEST_CASE("start-up: who is refused for good fails it for everyone, once", "[unit]") {
  StartingRank one(1, 4);
  one.begin();
  one.be_called(3);
  CHECK_FALSE(one.call_parent(encode(Refusal{true, {ErrorKind::mismatch, "two jobs", 1}})));
  auto& child = one.others.at(3);
  REQUIRE(one.until([&] { return !child.heard(0).empty(); }));
  const auto news = decode_failure(child.heard(0)[0].body, 4);
  REQUIRE(news);
  CHECK(news->communicator == kEveryCommunicator);
  CHECK_THAT(news->failure.message, Contains("rank 0 refused the connection: two jobs"));
  REQUIRE(one.outcome());
  REQUIRE_FALSE(*one.outcome());
  CHECK(one.outcome()->error() == news->failure);
  one.start_up.give_up({ErrorKind::timed_out, "later", {}});
  one.start_up.fail_for_all({ErrorKind::timed_out, "later", {}});
  CHECK(one.outcome()->error() == news->failure);
  CHECK(one.news.failures().size() == 1);
  CHECK(one.times_left == 1);
}

TEST_CASE("start-up: one that cannot succeed is decided when it begins", "[unit]") {
  StartingRank one(1, 4);
  const bool leaves = GENERATE(false, true);
  if (leaves)
    one.stage.leave();
  else
    one.flooding.flood(kEveryCommunicator, {ErrorKind::peer_lost, "lost before", {}});
  CHECK_FALSE(one.outcome());
  one.begin();
  REQUIRE(one.outcome());
  REQUIRE_FALSE(*one.outcome());
  CHECK(one.outcome()->error().message ==
        (leaves ? "start-up: rank 1 has already left" : "lost before"));
  CHECK(one.times_left == (leaves ? 0 : 1));
}

TEST_CASE("start-up: a rank that leaves tells why to a parent that lets it in", "[unit]") {
  StartingRank one(1, 4);
  one.begin();
  one.start_up.give_up({ErrorKind::timed_out, "no patience", {}});
  CHECK(one.times_left == 1);
  auto& parent = one.others.at(0);
  one.start_up.call_parent(parent.row());
  REQUIRE(one.until([&] { return parent.calls() == 1 && !parent.heard(0).empty(); }));
  parent.say(0, encode_welcome());
  // It lets the parent read to the end.
  REQUIRE(one.until([&] { return parent.heard(0).size() == 3; }));
  for (int i = 0; i < 3; i++) one.service->turn();
  CHECK_FALSE(one.progress.state.lock()->attempt);
  REQUIRE(parent.types(0) == std::vector{Type::hello, Type::failure, Type::left});
  parent.hang_up(0);
  const auto told = one.attempted();
  REQUIRE_FALSE(told);
  CHECK(told.error().kind == ErrorKind::aborted);
  CHECK(decode_failure(parent.heard(0)[1].body, 4)->failure.message == "no patience");
  CHECK(decode_left(parent.heard(0)[2].body, 4) == Ranks{1});
  CHECK(one.edges.empty());
}

TEST_CASE("start-up: another process claims this rank only if it says so", "[unit]") {
  StartingRank one(2, 4);
  one.begin();
  const auto ask = [&](const std::string& answer) {
    // The process that had announced itself as rank 2 listens as rank 3 here.
    return one.attempt(
        3, [&] { one.start_up.ask_claimant(one.row_of(3)); }, answer);
  };
  const auto refusal = [](ErrorKind kind, std::uint32_t culprit) {
    return encode(Refusal{true, {kind, "two processes", culprit}});
  };
  CHECK(ask(encode_welcome()));
  CHECK(ask(refusal(ErrorKind::mismatch, 3)));
  CHECK(ask(refusal(ErrorKind::peer_lost, 2)));
  CHECK(ask({}));
  const auto claimed = ask(refusal(ErrorKind::mismatch, 2));
  REQUIRE_FALSE(claimed);
  CHECK_THAT(claimed.error().message, Contains("two processes"));
  one.others.at(3).stop();
  one.progress.state.lock()->attempt.reset();
  one.start_up.ask_claimant(one.row_of(3));
  CHECK(one.attempted());
  CHECK_FALSE(one.outcome());
}

}  // namespace ccoll::control
