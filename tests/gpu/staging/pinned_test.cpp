// SPDX-License-Identifier: Apache-2.0
// How calls in streams share host memory, and where in it their buffers lie: all of it pure.
#include "gpu/cuda/pinned.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <vector>

using namespace ccoll;
using namespace ccoll::device;

namespace {

/// A call that has, or waits for, a piece of the ring.
struct RingUser {
  std::uint64_t offset, bytes;
  std::unique_ptr<Words> words = std::make_unique<Words>();
  bool has_room;

  /// Whether it may use its piece.
  bool may_use() const { return has_room || words->room == 1; }
};

std::vector<std::byte> some_memory(std::size_t bytes) { return std::vector<std::byte>(bytes); }

/// Ranges in that memory that may overlap, and some without bytes.
std::vector<MemoryRange> some_ranges(std::vector<std::byte>& memory, std::mt19937_64& random) {
  std::vector<MemoryRange> ranges(random() % 6);
  for (auto& each : ranges) {
    const auto begin = random() % memory.size();
    each = {memory.data() + begin, std::min<std::uint64_t>(random() % 900, memory.size() - begin)};
  }
  return ranges;
}

bool has(std::span<const MemoryRange> ranges, const std::byte* place) {
  return std::ranges::any_of(ranges, [&](const MemoryRange& range) {
    return place >= range.data && place < range.data + range.bytes;
  });
}

}  // namespace

TEST_CASE(
    "pinned memory: pieces of the ring that may be used share nothing, and each gets its room",
    "[engine][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  for (int i = 0; i < 100; i++) {
    CAPTURE(seed, i);
    const std::uint64_t size = 16 + random() % 100;
    Ring ring(size);
    std::map<std::uint64_t, RingUser> users;  // by number
    const auto check = [&] {
      bool all_before = true;
      std::vector<bool> is_used(size);
      for (const auto& [number, user] : users) {
        CAPTURE(number);
        // Room comes in the order of taking.
        CHECK((all_before || !user.may_use()));
        all_before = user.may_use();
        if (!user.may_use()) continue;
        for (auto at = user.offset; at < user.offset + user.bytes; at++) {
          CHECK_FALSE(is_used[at]);
          is_used[at] = true;
        }
      }
      // The first of all is never held up.
      if (!users.empty()) CHECK(users.begin()->second.may_use());
    };
    for (int step = 0; step < 60; step++) {
      if (random() % 2 == 0 || users.empty()) {
        RingUser user{.offset = 0, .bytes = 1 + random() % size, .has_room = false};
        const auto taken = ring.take(user.bytes, user.words.get());
        user.offset = taken.offset;
        user.has_room = taken.has_room;
        CHECK(taken.offset + user.bytes <= size);
        CHECK(users.emplace(taken.number, std::move(user)).second);
      } else {
        // A call that has failed gives back what it never used.
        auto user = users.begin();
        std::advance(user, random() % users.size());
        const auto number = user->first;
        const auto words = std::move(user->second.words);
        const auto room = words->room;
        users.erase(user);
        ring.give_back(number);
        CHECK(words->room == room);
      }
      check();
    }
    while (!users.empty()) {
      const auto number = users.begin()->first;
      users.erase(number);
      ring.give_back(number);
      check();
    }
    const auto taken = ring.take(size, nullptr);
    CHECK(taken.has_room);
  }
}

TEST_CASE("pinned memory: each place of a call's ranges has one on the host, which is no other's",
          "[engine][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  for (int i = 0; i < 60; i++) {
    CAPTURE(seed, i);
    auto memory = some_memory(3000);
    const Copied copied{some_ranges(memory, random), some_ranges(memory, random)};
    Placement placement(copied);
    auto host = some_memory(placement.bytes() + 1);
    placement.put(host.data());
    std::map<const std::byte*, const std::byte*> place_of;  // by the host's
    for (const auto& place : memory) {
      const auto* const found = placement.find(&place);
      const bool is_read = has(copied.reads, &place), is_written = has(copied.writes, &place);
      CHECK((found != nullptr) == (is_read || is_written));
      CHECK(has(placement.reads(), &place) == is_read);
      CHECK(has(placement.writes(), &place) == is_written);
      if (found == nullptr) continue;
      CHECK((found >= host.data() && found < host.data() + placement.bytes()));
      CHECK(place_of.emplace(found, &place).second);
    }
    // Copies go by whole ranges, and each begins aligned.
    for (const auto ranges : {placement.reads(), placement.writes()})
      for (const auto& range : ranges)
        CHECK(placement.find(range.data + range.bytes - 1) ==
              placement.find(range.data) + range.bytes - 1);
    CHECK(placement.bytes() % staged_bytes(1) == 0);
    CHECK(placement.find(memory.data() + memory.size()) == nullptr);
  }
}
