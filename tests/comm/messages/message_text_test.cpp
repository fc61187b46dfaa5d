// SPDX-License-Identifier: Apache-2.0
#include "comm/messages/message_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace ccoll::test {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using What = MessageOperation::What;
using Stage = MessageOperation::Stage;

/// Its numbers differ from each other, so that a text with one of them has that one.
void fill_any(MessageOperation& made, std::mt19937& random) {
  made.what = std::array{What::send, What::recv, What::probe}[random() % 3];
  if (random() % 3 > 0 || made.what == What::send) made.pattern.from = 100 + random() % 100;
  if (random() % 3 > 0 || made.what == What::send) made.pattern.tag = 300 + random() % 100;
  made.bytes = 5000 + random() % 1000;
  made.moved_bytes = 1000 + random() % 1000;
  if (random() % 2 == 0) made.label = "gradients";
  if (made.what != What::send) made.received.emplace().bytes = 3000 + random() % 1000;
}

int count_of_words(const std::string& text, const std::string& words) {
  int count = 0;
  for (auto at = text.find(words); at != text.npos; at = text.find(words, at + 1)) count++;
  return count;
}

}  // namespace

TEST_CASE("message text: a name has the peer, the tag, the size, the label and the own rank",
          "[comm][unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int trial = 0; trial < 200; trial++) {
    MessageOperation operation;
    fill_any(operation, random);
    const auto name = name_of(operation, 42);
    const auto& [from, tag] = operation.pattern;
    CHECK_THAT(name, StartsWith(operation.what == What::send   ? "send to "
                                : operation.what == What::recv ? "recv from "
                                                               : "probe from "));
    CHECK_THAT(name, Contains(from ? fmt::format(" rank {} ", *from) : " any rank "));
    CHECK_THAT(name, Contains(tag ? fmt::format(" tag {}", *tag) : " any tag"));
    CHECK_THAT(name, EndsWith(" on rank 42"));
    // A probe has no buffer.
    const auto size = fmt::format("{} bytes", operation.bytes);
    CHECK(count_of_words(name, size) == (operation.what == What::probe ? 0 : 1));
    CHECK(count_of_words(name, ", \"gradients\"") == (operation.label.empty() ? 0 : 1));
  }
}

TEST_CASE("message text: no two stages have the same standing, and moved bytes count toward all",
          "[comm][unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const std::string others = " (others have: none)";
  for (int trial = 0; trial < 50; trial++) {
    MessageOperation operation;
    fill_any(operation, random);
    operation.received.emplace().bytes = 3000;
    std::set<std::string> seen;
    for (const auto stage : {Stage::queued, Stage::requested, Stage::sending, Stage::posted,
                             Stage::arriving, Stage::landing, Stage::flushing}) {
      operation.stage = stage;
      const auto standing = standing_of(operation, others);
      CAPTURE(standing);
      CHECK(seen.insert(standing).second);
      // Others' messages are news only to one that has none.
      CHECK(standing.ends_with(others) == (stage == Stage::posted));
      const auto part =
          fmt::format("{} of {} bytes", operation.moved_bytes,
                      stage == Stage::arriving ? operation.received->bytes : operation.bytes);
      CHECK(count_of_words(standing, part) ==
            (stage == Stage::sending || stage == Stage::arriving ? 1 : 0));
    }
  }
}

TEST_CASE("message text: up to four messages of the asked ranks are named, and all are counted",
          "[comm][unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  constexpr Rank kRanks = 4;
  for (int trial = 0; trial < 200; trial++) {
    Matcher matcher;
    std::vector<std::vector<Envelope>> stored(kRanks);
    for (std::uint32_t i = 0; i < random() % 12; i++) {
      const Envelope message{
          .from = static_cast<Rank>(random() % kRanks), .tag = 10 + i, .bytes = random() % 99};
      matcher.store(message, nullptr, 0);
      stored[message.from].push_back(message);
    }
    std::vector<Rank> asked(kRanks);
    std::iota(asked.begin(), asked.end(), 0);
    std::ranges::shuffle(asked, random);
    asked.resize(random() % (kRanks + 1));
    std::vector<std::string> expected;
    for (const auto rank : asked)
      for (const auto& [from, tag, bytes, id, type, requests, in_slots, charge] : stored[rank])
        expected.push_back(fmt::format("rank {} tag {} with {} bytes", from, tag, bytes));
    const auto text = others_waiting(matcher, asked);
    CAPTURE(text);
    CHECK(text.empty() == expected.empty());
    std::size_t place = 0;
    for (std::size_t i = 0; i < std::min<std::size_t>(expected.size(), 4); i++) {
      place = text.find(expected[i], place);  // in the order of arrival
      REQUIRE(place != text.npos);
    }
    CHECK(count_of_words(text, " tag ") == std::min<int>(static_cast<int>(expected.size()), 4));
    if (expected.size() > 4)
      CHECK_THAT(text, EndsWith(fmt::format(" {} more)", expected.size() - 4)));
    else
      CHECK(count_of_words(text, "more") == 0);
  }
}

TEST_CASE("message text: a link's failure keeps all but its message, which begins with the victim",
          "[comm][unit]") {
  std::mt19937 random(1);
  MessageOperation operation;
  fill_any(operation, random);
  operation.stage = Stage::posted;
  Failure failure{ErrorKind::peer_lost, "the peer closed", 5};
  const auto told = lost(operation, failure, 42, " (others have: x)").value();
  CHECK_THAT(told.message, StartsWith(name_of(operation, 42) + ", ") &&
                               Contains(standing_of(operation, " (others have: x)") + ": ") &&
                               EndsWith("the peer closed"));
  CHECK(told.kind == failure.kind);
  CHECK(told.culprit == failure.culprit);
}

}  // namespace ccoll::test
