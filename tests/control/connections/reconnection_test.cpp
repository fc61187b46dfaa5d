// SPDX-License-Identifier: Apache-2.0
#include "control/connections/reconnection.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "control/one_rank.hpp"

namespace ccoll::control {
namespace {

using namespace std::chrono_literals;
using Types = std::vector<Type>;

std::string refusal(bool final, ErrorKind kind, std::optional<std::uint32_t> culprit = {}) {
  return encode(Refusal{final, {kind, "why", culprit}});
}

/// A rank that has joined, without any pauses between its calls.
struct SeekingRank final : OneRank, Reconnection::Owner {
  std::vector<std::uint32_t> all_welcomed;
  std::vector<std::string> lost_peers;
  int times_finished = 0;
  Reconnection reconnection{caller,   roster,       stage, edges,     absences,
                            flooding, owner->tasks, *this, {0ms, 0ms}};

  SeekingRank(std::uint32_t self, std::uint32_t of) : OneRank(self, of) { join(); }

  /// Hears of departures, and looks for a rank above.
  void part_with(const std::vector<std::uint32_t>& ranks) {
    for (const auto each : ranks) flooding.part_with(each, Flooding::kNobody);
    reconnection.ensure();
  }
  /// Every call that has not been answered gets the answer of its rank; none: it hangs up.
  bool answer_all(const std::function<std::string(std::uint32_t)>& answer) {
    for (auto& [each, callee] : others) {
      for (std::size_t call = answered_[each]; call < callee.calls(); call++) {
        if (callee.heard(call).empty()) break;
        answered_[each]++;
        const std::string said = answer(each);
        if (said.empty())
          callee.hang_up(call);
        else
          callee.say(call, said);
      }
    }
    return true;
  }
  /// Answers until there is nothing to look for.
  bool is_settled(const std::function<std::string(std::uint32_t)>& answer) {
    return until([&] { return answer_all(answer) && !reconnection.is_on(); });
  }
  Edge& connect(std::uint32_t peer) {
    answered_[peer]++;
    return OneRank::connect(peer);
  }

  // As the hub does.
  Status received(Edge& edge, const Frame& frame) override {
    return reconnection.answered(edge, frame);
  }
  void ended(Edge& edge, const std::string& why) override {
    if (edges.remove(edge) && !reconnection.ended(edge)) lost_peers.push_back(why);
  }
  void lost(std::uint32_t peer) override {
    if (const auto edge = edges.dismiss(peer)) reconnection.ended(*edge);
  }
  void gone() override { reconnection.ensure(); }
  std::shared_ptr<Edge> meet(net::Stream stream, std::uint32_t peer, const PeerAddress& address,
                             const std::string& greeting) override {
    auto edge = OneRank::meet(std::move(stream), peer, address, greeting);
    flooding.catch_up(*edge);
    return edge;
  }
  void welcomed(Edge& edge) override { all_welcomed.push_back(edge.peer()); }
  void finish_leaving() override {
    times_finished++;
    reconnection.stop();
  }

 private:
  std::map<std::uint32_t, std::size_t> answered_;
};

using Ranks = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("reconnection: a rank calls those above in turn, until one lets it in or is its peer",
          "[unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int trial = 0; trial < 60; trial++) {
    const std::uint32_t size = 2 + random() % 9, self = random() % size;
    SeekingRank one(self, size);
    enum class Be { there, peer, gone, deaf, refusing, doubting };
    std::map<std::uint32_t, Be> others;
    Ranks called, absent, parted;
    std::optional<std::uint32_t> found;
    bool is_let_in = false;
    for (std::uint32_t each = 0; each < size; each++) {
      if (each == self) continue;
      const auto be = others[each] = static_cast<Be>(random() % 6);
      if (be == Be::peer) one.connect(each);
      if (be == Be::gone) parted.push_back(each);
      if (be == Be::deaf) one.others.at(each).stop();
      if (each < self || found) continue;
      // Those between have gone, or do not let it in.
      if (be == Be::there || be == Be::peer) found = each;
      if (be == Be::there) is_let_in = true;
      if (be != Be::peer && be != Be::gone && be != Be::deaf) called.push_back(each);
      if (be == Be::deaf || be == Be::refusing || be == Be::doubting) absent.push_back(each);
    }
    CAPTURE(size, self, called, absent, parted);
    one.part_with(parted);
    CHECK(one.is_settled([&](std::uint32_t each) {
      if (others.at(each) == Be::refusing) return refusal(true, ErrorKind::timed_out);
      if (others.at(each) == Be::doubting) return refusal(false, ErrorKind::mismatch);
      return encode_welcome();
    }));
    for (auto& [each, callee] : one.others) {
      CAPTURE(each);
      const bool is_called = std::ranges::count(called, each) > 0;
      CHECK(callee.calls() == (is_called || others.at(each) == Be::peer ? 1 : 0));
      CHECK(one.absences.contains(each) == (std::ranges::count(absent, each) > 0));
      if (!is_called) continue;
      const auto& first = callee.heard(0).front();
      CHECK(first.type == Type::hello);
      CHECK(decode_hello(first.body) == one.caller.hello_to(callee.row()));
    }
    CHECK(one.all_welcomed == (is_let_in ? Ranks{*found} : Ranks{}));
    if (found) CHECK(one.edges.contains(*found));
    CHECK(one.lost_peers.empty());
    // It has found its place.
    one.reconnection.ensure();
    CHECK_FALSE(one.reconnection.is_on());
  }
}

TEST_CASE("reconnection: ranks that may let it in later are called again, those between in turn",
          "[unit]") {
  SeekingRank one(1, 6);
  // Rank 4 hangs up, and rank 5 refuses twice for now.
  int times = 0;
  one.part_with({2});
  CHECK(one.is_settled([&](std::uint32_t each) -> std::string {
    if (each == 3) return refusal(true, ErrorKind::peer_lost);
    if (each == 4) return {};
    return ++times < 3 ? refusal(false, ErrorKind::timed_out) : encode_welcome();
  }));
  CHECK(one.all_welcomed == Ranks{5});
  CHECK(one.others.at(3).calls() == 1);
  CHECK(one.others.at(4).calls() == 3);
  CHECK(one.others.at(5).calls() == 3);
  CHECK(one.absences.contains(3));
  CHECK_FALSE(one.absences.contains(4));
  CHECK(one.lost_peers.empty());
}

TEST_CASE("reconnection: one rank is called at a time, and has no limit for its answer", "[unit]") {
  SeekingRank one(0, 4);
  one.part_with({1});
  auto& callee = one.others.at(2);
  REQUIRE(one.until([&] { return callee.calls() == 1 && !callee.heard(0).empty(); }));
  shown += 24h;
  one.service->turn();
  one.reconnection.ensure();
  one.service->turn();
  CHECK(one.reconnection.is_on());
  CHECK(one.others.at(3).calls() == 0);
  CHECK(one.edges.find(2)->awaits_answer());
  SECTION("it lets the rank in") {
    CHECK(one.is_settled([](std::uint32_t) { return encode_welcome(); }));
    CHECK_FALSE(one.edges.find(2)->awaits_answer());
    CHECK(one.others.at(3).calls() == 0);
  }
  SECTION("it goes before it answers, and the next is called") {
    one.flooding.lose(2, {}, "why");
    CHECK(one.is_settled([](std::uint32_t) { return encode_welcome(); }));
    CHECK(one.all_welcomed == Ranks{3});
  }
  SECTION("it goes with its answer, and the next is called") {
    one.flooding.part_with(2, Flooding::kNobody);
    CHECK(one.is_settled([](std::uint32_t) { return encode_welcome(); }));
    CHECK(one.all_welcomed == Ranks{2, 3});
  }
}

TEST_CASE("reconnection: a rank that goes while it is being called is not greeted", "[unit]") {
  SeekingRank one(1, 5);
  one.part_with({2});
  auto& callee = one.others.at(3);
  REQUIRE(one.until([&] { return callee.calls() == 1; }));  // it has yet to hear that it got in
  one.flooding.part_with(3, Flooding::kNobody);
  CHECK(one.is_settled([](std::uint32_t) { return encode_welcome(); }));
  CHECK(one.all_welcomed == Ranks{4});
  CHECK(callee.heard(0).empty());
}

TEST_CASE("reconnection: a rank that others count as lost hears so, and calls no more", "[unit]") {
  SeekingRank one(1, 5);
  one.part_with({2});
  CHECK(one.is_settled([](std::uint32_t) { return refusal(true, ErrorKind::peer_lost, 1); }));
  CHECK(one.news.is_gone(1));
  CHECK(one.edges.empty());
  one.reconnection.ensure();
  CHECK_FALSE(one.reconnection.is_on());
  CHECK(one.others.at(4).calls() == 0);
}

TEST_CASE("reconnection: nobody is called before a rank has joined, nor once it leaves", "[unit]") {
  SeekingRank one(1, 5);
  one.stage = Stage();
  const bool leaves = GENERATE(false, true);
  if (leaves) {
    one.join();
    one.stage.leave();
  }
  one.part_with({2});
  CHECK_FALSE(one.reconnection.is_on());
}

TEST_CASE("reconnection: an answer that was not asked for is refused, and so is a malformed one",
          "[unit]") {
  SeekingRank one(1, 5);
  Edge& peer = one.connect(0);
  CHECK_FALSE(one.reconnection.answered(peer, {Type::welcome, {}}));
  one.part_with({2});
  REQUIRE(one.until([&] { return one.edges.contains(3); }));
  CHECK_FALSE(one.reconnection.answered(peer, {Type::welcome, {}}));
  CHECK_FALSE(one.reconnection.answered(*one.edges.find(3), {Type::refused, "x"}));
}

TEST_CASE("reconnection: a leaving rank calls only if it is alone, or brings news", "[unit]") {
  SeekingRank one(1, 5);
  const bool is_alone = GENERATE(false, true), has_news = GENERATE(false, true);
  CAPTURE(is_alone, has_news);
  if (!is_alone) one.connect(0);
  one.part_with({2});  // nothing has run: it is about to call rank 3
  const Failure failure{ErrorKind::timed_out, "why", {}};
  if (has_news) one.flooding.flood(7, failure);
  one.stage.leave();
  one.reconnection.leave();
  CHECK(one.is_settled([](std::uint32_t) { return encode_welcome(); }));
  auto& callee = one.others.at(3);
  CHECK(callee.calls() == (is_alone || has_news ? 1 : 0));
  CHECK(one.others.at(4).calls() == 0);
  CHECK(one.times_finished == 0);  // the peers' ends finish it
  if (callee.calls() == 0) return;
  CHECK(one.until([&] { return callee.is_over(0); }));
  Types expected{Type::hello};
  if (has_news) expected.push_back(Type::failure);
  expected.insert(expected.end(), {Type::left, Type::left});  // rank 2, and itself
  CHECK(callee.types(0) == expected);
  CHECK(decode_left(callee.heard(0).back().body, 5) == Ranks{1});
}

TEST_CASE("reconnection: a leaving rank that has peers brings its news to one more at most",
          "[unit]") {
  SeekingRank one(1, 5);
  one.connect(0);
  one.part_with({2});
  one.flooding.flood(7, {ErrorKind::timed_out, "why", {}});
  one.stage.leave();
  one.others.at(3).stop();
  one.reconnection.leave();
  CHECK(one.is_settled([](std::uint32_t) { return encode_welcome(); }));
  CHECK(one.absences.contains(3));
  CHECK(one.others.at(4).calls() == 0);
}

TEST_CASE("reconnection: a leaving rank is done at once, or when nobody above can be told",
          "[unit]") {
  const bool is_highest = GENERATE(false, true);
  SeekingRank one(is_highest ? 4 : 1, 5);
  one.stage.leave();
  for (auto& [each, callee] : one.others) callee.stop();
  one.reconnection.leave();
  CHECK(one.times_finished == (is_highest ? 1 : 0));
  CHECK(one.until([&] { return one.times_finished == 1; }));
  one.service->turn();
  CHECK(one.times_finished == 1);
}

}  // namespace ccoll::control
