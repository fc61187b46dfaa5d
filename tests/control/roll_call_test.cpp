// SPDX-License-Identifier: Apache-2.0
#include "control/roll_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "support/effort.hpp"

namespace ccoll::control {
namespace {

constexpr std::uint64_t kCommunicator = 7;
const Failure kLost{ErrorKind::peer_lost, "lost", std::nullopt};

FailureNews loss_of(std::uint32_t rank) {
  auto failure = kLost;
  failure.culprit = rank;
  return {rank, 0, kEveryCommunicator, failure};
}

/// Ranks whose words travel one at a time: in order between the same two ranks, in any order
/// otherwise.
class Ranks {
 public:
  Ranks(std::uint32_t size, std::uint32_t seed) : random_(seed) {
    for (std::uint32_t rank = 0; rank < size; rank++) {
      all_.push_back(std::make_unique<Rank>(rank, size));
      everyone_.push_back(rank);
    }
  }

  std::uint32_t below(std::size_t limit) {
    return std::uniform_int_distribution<std::uint32_t>(
        0, static_cast<std::uint32_t>(limit) - 1)(random_);
  }
  std::uint32_t size() const { return static_cast<std::uint32_t>(all_.size()); }
  bool dead(std::uint32_t rank) const { return all_[rank]->dead; }
  bool over(std::uint32_t rank) const { return all_[rank]->count->state.lock()->gone.has_value(); }
  Result<std::vector<std::uint32_t>> outcome(std::uint32_t rank) const {
    return *all_[rank]->count->state.lock()->gone;
  }

  void call(std::uint32_t rank, std::uint32_t attempt = 0) {
    auto& self = *all_[rank];
    self.count = std::make_shared<Headcount>();
    self.calls.begin({kCommunicator, 0, attempt, everyone_}, self.count);
    go_on(rank);
  }
  void give_up(std::uint32_t rank, const Failure& why) {
    all_[rank]->calls.give_up({kCommunicator, 0, 0, everyone_}, why);
    go_on(rank);
  }
  void close(std::uint32_t rank) {
    all_[rank]->calls.close(kCommunicator);
    go_on(rank);
  }
  /// Its words may have reached some ranks and not others.
  void die(std::uint32_t rank) {
    all_[rank]->dead = true;
    for (std::uint32_t to = 0; to < size(); to++) {
      auto& words = all_[to]->coming[rank];
      words.resize(words.size() - below(words.size() + 1));
    }
    suspect(rank);
  }
  /// All ranks will hear that it was lost, although it may be alive.
  void suspect(std::uint32_t rank) {
    for (auto& each : all_) each->losses.push_back(rank);
  }

  /// Delivers one event somewhere; false if none is left.
  bool step() {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> possible;  // (to, from); from itself: loss
    for (std::uint32_t to = 0; to < size(); to++) {
      if (dead(to)) continue;
      if (!all_[to]->losses.empty()) possible.emplace_back(to, to);
      for (const auto& [from, words] : all_[to]->coming)
        if (!words.empty()) possible.emplace_back(to, from);
    }
    if (possible.empty()) return false;
    const auto [to, from] = possible[below(possible.size())];
    auto& self = *all_[to];
    if (from == to) {
      self.news.learn(loss_of(self.losses.front()));
      self.losses.pop_front();
    } else {
      const auto answer = self.coming[from].front();
      self.coming[from].pop_front();
      if (self.calls.learn(answer)) tell(to, answer);
    }
    go_on(to);
    return true;
  }

 private:
  struct Rank {
    Rank(std::uint32_t rank, std::uint32_t size) : calls(rank), news(size) {}
    RollCalls calls;
    News news;
    std::shared_ptr<Headcount> count = std::make_shared<Headcount>();
    std::map<std::uint32_t, std::deque<Answer>> coming;  ///< by sender
    std::deque<std::uint32_t> losses;                    ///< losses yet to be heard of
    bool dead = false;
  };

  void tell(std::uint32_t from, const Answer& answer) {
    for (std::uint32_t to = 0; to < size(); to++)
      if (to != from) all_[to]->coming[from].push_back(answer);
  }
  void go_on(std::uint32_t rank) {
    auto& self = *all_[rank];
    self.calls.advance(self.news);
    for (const auto& answer : self.calls.take()) tell(rank, answer);
  }

  std::mt19937 random_;
  std::vector<std::unique_ptr<Rank>> all_;
  std::vector<std::uint32_t> everyone_;
};

bool has(const std::vector<std::uint32_t>& ranks, std::uint32_t rank) {
  return std::ranges::find(ranks, rank) != ranks.end();
}

/// Some ranks die or are taken for lost while all agree; returns "" or the error.
std::string run(std::uint32_t seed) {
  std::mt19937 draw(seed);
  const auto pick = [&](std::uint32_t least, std::uint32_t most) {
    return std::uniform_int_distribution<std::uint32_t>(least, most)(draw);
  };
  Ranks ranks(pick(2, 7), seed);
  std::deque<std::uint32_t> to_call, to_end;
  for (std::uint32_t rank = 0; rank < ranks.size(); rank++) to_call.push_back(rank);
  std::ranges::shuffle(to_call, draw);
  std::vector<bool> suspected(ranks.size());
  for (auto ends = pick(0, ranks.size() - 1); ends > 0; ends--)
    to_end.push_back(pick(0, ranks.size() - 1));
  for (;;) {
    const auto what = pick(0, 9);
    if (what == 0 && !to_call.empty()) {
      if (!ranks.dead(to_call.front())) ranks.call(to_call.front());
      to_call.pop_front();
    } else if (what == 1 && !to_end.empty()) {
      const auto rank = to_end.front();
      to_end.pop_front();
      if (ranks.dead(rank) || suspected[rank]) continue;
      suspected[rank] = true;
      pick(0, 3) == 0 ? ranks.suspect(rank) : ranks.die(rank);
    } else if (!ranks.step() && to_call.empty() && to_end.empty()) {
      break;
    }
  }
  for (std::uint32_t a = 0; a < ranks.size(); a++) {
    if (ranks.dead(a)) continue;
    if (!ranks.over(a)) return fmt::format("rank {} waits for ever", a);
    const auto mine = ranks.outcome(a);
    if (!mine) {
      if (!suspected[a]) return fmt::format("rank {} fails, and was not lost", a);
      continue;
    }
    for (const auto gone : *mine)
      if (!suspected[gone]) return fmt::format("rank {} counts {}, which lives", a, gone);
    for (std::uint32_t b = 0; b < a; b++) {
      if (ranks.dead(b)) continue;
      const auto theirs = ranks.outcome(b);
      if (theirs && !has(*mine, b) && !has(*theirs, a) && *mine != *theirs)
        return fmt::format("ranks {} and {} come to different ends", b, a);
    }
  }
  return "";
}

void settle(Ranks& ranks) {
  while (ranks.step()) {
  }
}

/// Ranks connected like a job's, by a tree and a ring, so that words travel around cycles. Each two
/// ranks half the job apart share a communicator.
class Pairs {
 public:
  Pairs(std::uint32_t size, std::uint32_t seed) : random_(seed), peers_(size) {
    for (std::uint32_t rank = 0; rank < size; rank++) {
      all_.push_back(std::make_unique<Rank>(rank, size));
      connect(rank, (rank + 1) % size);
      if (rank > 0) connect(rank, (rank - 1) / 2);
    }
  }

  void call(std::uint32_t rank) {
    const std::uint32_t lower = rank % half(), upper = lower + half();
    all_[rank]->calls.begin({1000 + lower, 0, 0, {lower, upper}}, all_[rank]->count);
    go_on(rank);
  }
  /// Delivers one word somewhere; false if none is in flight.
  bool step() {
    if (under_way_.empty()) return false;
    const auto drawn =
        std::uniform_int_distribution<std::size_t>(0, under_way_.size() - 1)(random_);
    std::swap(under_way_[drawn], under_way_.back());
    const auto [from, to] = under_way_.back();
    under_way_.pop_back();
    const auto answer = words_[{from, to}].front();
    words_[{from, to}].pop_front();
    if (!all_[to]->calls.learn(answer)) return true;
    tell(to, answer, from);
    go_on(to);
    return true;
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(all_.size()); }
  bool agreed(std::uint32_t rank) const {
    const auto gone = all_[rank]->count->state.lock()->gone;
    return gone && *gone && (*gone)->empty();
  }
  std::size_t told() const { return told_; }
  /// The number of words if each goes over each connection once per direction.
  std::size_t most_told() const {
    std::size_t ends = 0;
    for (const auto& peers : peers_) ends += peers.size();
    return said_ * ends;
  }

 private:
  struct Rank {
    Rank(std::uint32_t rank, std::uint32_t size) : calls(rank), news(size) {}
    RollCalls calls;
    News news;
    std::shared_ptr<Headcount> count = std::make_shared<Headcount>();
  };

  std::uint32_t half() const { return size() / 2; }
  void connect(std::uint32_t a, std::uint32_t b) {
    peers_[a].insert(b);
    peers_[b].insert(a);
  }
  void tell(std::uint32_t from, const Answer& answer, std::uint32_t except) {
    for (const auto to : peers_[from]) {
      if (to == except) continue;
      words_[{from, to}].push_back(answer);
      under_way_.emplace_back(from, to);
      told_++;
    }
  }
  void go_on(std::uint32_t rank) {
    auto& self = *all_[rank];
    self.calls.advance(self.news);
    for (const auto& answer : self.calls.take()) {
      said_++;
      tell(rank, answer, rank);
    }
  }

  std::mt19937 random_;
  std::vector<std::unique_ptr<Rank>> all_;
  std::vector<std::set<std::uint32_t>> peers_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<Answer>> words_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> under_way_;
  std::size_t said_ = 0, told_ = 0;
};

/// Rank 1's word in that communicator's roll call; a few thousand of this length are too many.
Answer word(std::uint64_t said, std::uint64_t communicator) {
  Answer answer{communicator, 0, 1, said, 0, Answer::State::counts, {}};
  answer.why = {ErrorKind::timed_out, std::string(kMaxText, 'x'), std::nullopt};
  return answer;
}

}  // namespace

TEST_CASE("roll calls: whoever dies and when, ranks that live decide the same", "[property]") {
  const auto seeds = testing::by_effort(2'000U, 20'000U, 500'000U);
  std::string wrong;
  std::uint32_t seed = 0;
  while (seed < seeds && (wrong = run(seed)).empty()) seed++;
  CAPTURE(seed);
  CHECK(wrong == "");
}

TEST_CASE("roll calls: one that has decided answers who comes later", "[unit]") {
  Ranks ranks(3, 1);
  for (const std::uint32_t rank : {0, 1, 2}) ranks.call(rank);
  settle(ranks);
  for (const std::uint32_t rank : {0, 1, 2}) CHECK(ranks.outcome(rank).value().empty());
  ranks.die(1);
  settle(ranks);
  ranks.call(2, 1);
  REQUIRE(ranks.over(2));
  CHECK(ranks.outcome(2).value().empty());
}

TEST_CASE("roll calls: who gives up ends it for all, and the next attempt is as good as the first",
          "[unit]") {
  Ranks ranks(3, 2);
  for (const std::uint32_t rank : {0, 1}) ranks.call(rank);
  settle(ranks);
  CHECK_FALSE(ranks.over(0));
  ranks.give_up(0, {ErrorKind::timed_out, "no patience", 2});
  settle(ranks);
  for (const std::uint32_t rank : {0, 1}) {
    REQUIRE(ranks.over(rank));
    CHECK(ranks.outcome(rank).error().message == "no patience");
  }
  // The first attempt is over for latecomers, too; the second is not.
  for (const std::uint32_t rank : {1, 0}) ranks.call(rank, 1);
  settle(ranks);
  ranks.call(2);
  REQUIRE(ranks.over(2));
  CHECK(ranks.outcome(2).error().message == "no patience");
  settle(ranks);
  CHECK_FALSE(ranks.over(0));
  ranks.call(2, 1);
  settle(ranks);
  for (const std::uint32_t rank : {0, 1, 2}) {
    REQUIRE(ranks.over(rank));
    CHECK(ranks.outcome(rank).value().empty());
  }
}

TEST_CASE("roll calls: who fails before it could begin ends the attempt for all, but no later one",
          "[unit]") {
  Ranks ranks(3, 4);
  for (const std::uint32_t rank : {0, 1}) ranks.call(rank);
  settle(ranks);
  ranks.give_up(2, {ErrorKind::exhausted, "no memory", 2});
  settle(ranks);
  for (const std::uint32_t rank : {0, 1}) {
    REQUIRE(ranks.over(rank));
    CHECK(ranks.outcome(rank).error().message == "no memory");
  }
  for (const std::uint32_t rank : {0, 1, 2}) ranks.call(rank, 1);
  settle(ranks);
  ranks.give_up(2, {ErrorKind::exhausted, "too late: that one is decided", 2});
  for (const std::uint32_t rank : {0, 1, 2}) {
    REQUIRE(ranks.over(rank));
    CHECK(ranks.outcome(rank).value().empty());
  }
}

TEST_CASE("roll calls: who has closed the communicator is gone, but not from what it had decided",
          "[unit]") {
  Ranks ranks(3, 3);
  ranks.close(1);
  for (const std::uint32_t rank : {0, 2}) ranks.call(rank);
  settle(ranks);
  for (const std::uint32_t rank : {0, 2})
    CHECK(ranks.outcome(rank).value() == std::vector<std::uint32_t>{1});

  Ranks others(2, 4);
  for (const std::uint32_t rank : {0, 1}) others.call(rank);
  settle(others);
  others.close(0);
  settle(others);
  others.call(1, 1);
  CHECK(others.outcome(1).value().empty());
}

TEST_CASE("roll calls: however many there are at once, each word goes over a connection once",
          "[property]") {
  for (const std::uint32_t calls : {2, 63, 66, 100}) {
    CAPTURE(calls);
    Pairs pairs(2 * calls, calls);
    for (std::uint32_t rank = 0; rank < pairs.size(); rank++) pairs.call(rank);
    bool is_over = false;
    while (pairs.told() <= pairs.most_told() && !is_over) is_over = !pairs.step();
    CHECK(is_over);
    std::uint32_t agreed = 0;
    for (std::uint32_t rank = 0; rank < pairs.size(); rank++) agreed += pairs.agreed(rank);
    CHECK(agreed == pairs.size());
  }
}

TEST_CASE("roll calls: what was forgotten is not new, and nothing is that this rank may need",
          "[unit]") {
  constexpr std::uint64_t kMany = 3 * RollCalls::kMaxBytes / kMaxText;
  constexpr std::uint64_t kCalled = 10, kOpen = 11, kFirst = 100;
  RollCalls calls(0);
  News news(2);
  const auto count = std::make_shared<Headcount>();
  calls.begin({kCalled, 0, 0, {0, 1}}, count);
  calls.advance(news);
  calls.open(kOpen);
  Answer early{kOpen, 0, 1, 1, 0, Answer::State::counts, {}};
  CHECK(calls.learn(early));
  for (std::uint64_t said = 2; said < kMany; said++) calls.learn(word(said, kFirst + said));

  std::size_t bytes = 0;
  for (const auto& answer : calls.answers()) bytes += encode(answer).size();
  CHECK(bytes <= RollCalls::kMaxBytes);
  std::size_t news_again = calls.learn(early);
  for (std::uint64_t said = 2; said < kMany; said++)
    news_again += calls.learn(word(said, kFirst + said));
  CHECK(news_again == 0);

  const auto later = std::make_shared<Headcount>();
  calls.begin({kOpen, 0, 0, {0, 1}}, later);
  calls.learn({kCalled, 0, 1, kMany, 0, Answer::State::counts, {}});
  calls.advance(news);
  for (const auto& each : {count, later}) {
    const auto gone = each->state.lock()->gone;
    REQUIRE(gone);
    CHECK(gone->value().empty());
  }
}

TEST_CASE("roll calls: what is remembered is told in the order in which it was said", "[unit]") {
  RollCalls teller(0), listener(2);
  for (const std::uint64_t communicator : {9, 8, 7})
    teller.learn(word(10 - communicator, communicator));
  for (const auto& answer : teller.answers()) CHECK(listener.learn(answer));
  CHECK(listener.answers().size() == 3);
}

TEST_CASE("roll calls: a closed communicator is known while thousands close later", "[unit]") {
  RollCalls calls(0);
  calls.close(kCommunicator);
  for (std::uint64_t later = 1; later < RollCalls::kMaxClosed; later++)
    calls.close(kCommunicator + later);
  calls.learn({kCommunicator, 0, 1, 1, 0, Answer::State::counts, {}});
  const auto told = calls.take();
  REQUIRE(told.size() == 1);
  CHECK(told[0].state == Answer::State::closed);
}

}  // namespace ccoll::control
