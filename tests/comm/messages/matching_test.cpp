// SPDX-License-Identifier: Apache-2.0
#include "comm/messages/matching.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <ctime>
#include <memory>
#include <random>
#include <vector>

#include "comm/messages/messages.hpp"

namespace ccoll {
namespace {

std::unique_ptr<MessageOperation> receive(std::optional<Rank> from,
                                          std::optional<std::uint32_t> tag) {
  auto made = std::make_unique<MessageOperation>();
  made->what = MessageOperation::What::recv;
  made->pattern = {from, tag};
  return made;
}

/// The rule of the MPI standard, literally: everything that waits, in its order.
struct Reference {
  std::vector<MessageOperation*> posted;
  std::vector<Envelope> come;

  MessageOperation* take_receive(const Envelope& envelope) {
    const auto found = std::ranges::find_if(
        posted, [&](const auto* each) { return matches(each->pattern, envelope); });
    if (found == posted.end()) return nullptr;
    auto* const taken = *found;
    posted.erase(found);
    return taken;
  }
  std::optional<Envelope> find(const Pattern& pattern) const {
    const auto found = std::ranges::find_if(
        come, [&](const Envelope& envelope) { return matches(pattern, envelope); });
    return found == come.end() ? std::nullopt : std::optional(*found);
  }
  void take(std::uint64_t id) {
    std::erase_if(come, [&](const Envelope& envelope) { return envelope.id == id; });
  }
};

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// The cost of each of `count` receives and messages that all wait at once and are matched last
/// first; the least of several tries.
double cost_of_one(std::uint32_t count) {
  double least = 1e9;
  for (int tries = 0; tries < 5; tries++) {
    Matcher matcher;
    std::vector<std::unique_ptr<MessageOperation>> receives;
    for (std::uint32_t tag = 0; tag < count; tag++) receives.push_back(receive(1, tag));
    const double begun = processor_seconds();
    for (const auto& each : receives) matcher.post(each.get());
    for (std::uint32_t tag = count; tag-- > 0;)
      REQUIRE(matcher.take_receive({.from = 1, .tag = tag}) == receives[tag].get());
    for (std::uint32_t tag = 0; tag < count; tag++)
      matcher.store({.from = 1, .tag = tag}, nullptr, 0);
    for (std::uint32_t tag = count; tag-- > 0;)
      REQUIRE(matcher.take(matcher.find({1, tag})).envelope.tag == tag);
    least = std::min(least, (processor_seconds() - begun) / count);
  }
  return least;
}

}  // namespace

TEST_CASE("matching: whatever waits, receives and messages find each other in order",
          "[comm][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto one_of = [&](std::uint32_t count) {
    return static_cast<std::uint32_t>(random() % count);
  };
  Matcher matcher;
  Reference reference;
  std::vector<std::unique_ptr<MessageOperation>> all;
  for (std::uint64_t id = 0; id < 20'000; id++) {
    const auto from = one_of(3), tag = one_of(4);
    if (one_of(2) == 0) {
      const Envelope envelope{.from = from, .tag = tag, .id = id};
      auto* const taken = matcher.take_receive(envelope);
      REQUIRE(taken == reference.take_receive(envelope));
      if (taken != nullptr) continue;
      matcher.store(envelope, nullptr, 0);
      reference.come.push_back(envelope);
    } else {
      const Pattern pattern{one_of(3) == 0 ? std::nullopt : std::optional<Rank>(from),
                            one_of(3) == 0 ? std::nullopt : std::optional(tag)};
      const auto found = matcher.find(pattern);
      const auto expected = reference.find(pattern);
      REQUIRE(found.has_value() == expected.has_value());
      if (found) {
        REQUIRE((*found)->envelope.id == expected->id);
        REQUIRE(matcher.take(found).envelope.id == expected->id);
        reference.take(expected->id);
      } else {
        all.push_back(receive(pattern.from, pattern.tag));
        matcher.post(all.back().get());
        reference.posted.push_back(all.back().get());
      }
    }
    const auto waits_for = [&](std::optional<Rank> source) {
      return std::ranges::any_of(reference.posted,
                                 [&](const auto* each) { return each->pattern.from == source; });
    };
    REQUIRE((matcher.one_from(from) != nullptr) == waits_for(from));
    REQUIRE((matcher.one_from_any() != nullptr) == waits_for(std::nullopt));
    REQUIRE(matcher.from(from).size() ==
            static_cast<std::size_t>(std::ranges::count(reference.come, from, &Envelope::from)));
  }
}

TEST_CASE("matching: each of many costs little more than each of few", "[comm][unit]") {
  // A linear search through all waiting ones would cost 16 times as much for each.
  CHECK(cost_of_one(32'000) < 6 * cost_of_one(2000));
}

}  // namespace ccoll
