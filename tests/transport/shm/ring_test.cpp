// SPDX-License-Identifier: Apache-2.0
// The ring's bookkeeping in one thread; ring_explorer_test.cpp covers concurrent access.
#include "transport/shm/ring_reader.hpp"
#include "transport/shm/ring_writer.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <memory>
#include <random>
#include <set>

#include "system/segment.hpp"

using namespace ccoll;

namespace {

/// Both ends, and the slices in flight between them.
template <typename Ring = shm::Ring>
class Ends {
 public:
  Ends(std::uint32_t slots, std::uint32_t lines, std::uint64_t first_behind = UINT64_MAX)
      : slots_(slots), writer(ring_, slots, lines, nullptr, first_behind) {}

  bool has_room() { return writer.has_room(); }
  std::size_t slots_taken() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        sizes_, [](std::size_t bytes) { return bytes > Ring::Line::kDataBytes; }));
  }
  /// Returns where in the ring's memory it lies.
  std::size_t push(std::size_t bytes) {
    auto* const room = writer.room(bytes);
    std::fill_n(room, bytes, static_cast<std::byte>(pushed_));
    writer.push({pushed_++, {}, static_cast<std::uint32_t>(bytes), 0});
    sizes_.push_back(bytes);
    return static_cast<std::size_t>(room - segment_->data());
  }
  void pop() {
    REQUIRE(reader_.there());
    const auto header = reader_.header();
    CHECK(header.sequence == popped_);
    const auto* const data =
        Ring::Line::holds(header.bytes) ? reader_.in_line() : reader_.in_slot(reader_.place());
    const auto right = std::count(data, data + sizes_.front(), static_cast<std::byte>(popped_));
    CHECK(static_cast<std::size_t>(right) == sizes_.front());
    sizes_.pop_front();
    popped_++;
    reader_.pop(header.bytes);
  }
  bool is_there() const { return reader_.there(); }
  std::size_t under_way() const { return sizes_.size(); }
  std::uint32_t slots() const { return slots_; }
  void use(std::uint32_t slots) { writer.use(slots_ = slots); }

 private:
  std::shared_ptr<Segment> segment_ = Segment::make("ring-test", Ring::kBytes).value();
  Ring* const ring_ = Ring::make(segment_->data());
  std::deque<std::size_t> sizes_;
  std::uint64_t pushed_ = 0, popped_ = 0;
  std::uint32_t slots_;

 public:
  shm::BasicRingWriter<Ring> writer;

 private:
  shm::BasicRingReader<Ring> reader_{ring_};
};

}  // namespace

TEST_CASE(
    "ring: slices come out as they went in, also where the slots become more or fewer, and no more "
    "than those or the lines are under way",
    "[transport][property]") {
  const auto seed = std::random_device{}();
  std::mt19937 random(seed);
  int more_while_full = 0, fewer_while_full = 0;
  for (int game = 0; game < 200; game++) {
    constexpr auto kFewest = shm::Ring::kUntold + 1;
    const auto most =
        static_cast<std::uint32_t>(kFewest + random() % (shm::Ring::kLines - kFewest + 1));
    Ends<> ends(static_cast<std::uint32_t>(1 + random() % most), most);
    auto fewest = ends.slots();
    for (int turn = 0; turn < 200; turn++) {
      CAPTURE(seed, game, turn, most, fewest, ends.slots());
      if (ends.has_room()) {
        CHECK(ends.slots_taken() < ends.slots());
      } else {
        // It may not have heard of popped lines yet.
        const bool lacks_line = ends.under_way() + shm::Ring::kUntold >= most;
        CHECK((ends.writer.lacks_slot() ? ends.slots_taken() >= fewest : lacks_line));
      }
      if (random() % 30 == 0) {
        const auto slots = 1 + static_cast<std::uint32_t>(random() % most);
        if (!ends.has_room()) (slots > ends.slots() ? more_while_full : fewer_while_full)++;
        ends.use(slots);
        fewest = std::min(fewest, slots);
      } else if (random() % 2 == 0 && ends.has_room()) {
        constexpr auto kMostInLine = shm::Ring::Line::kDataBytes;
        ends.push(random() % 3 == 0 ? random() % (kMostInLine + 1)
                                    : kMostInLine + 1 + random() % 5'000);
      } else if (ends.under_way() > 0) {
        ends.pop();
      }
    }
    // After one round it has all that it may use.
    while (ends.under_way() > 0) ends.pop();
    for (std::uint32_t i = 0; i < most; i++, ends.pop()) {
      REQUIRE(ends.has_room());
      ends.push(20'000);
    }
    while (ends.has_room()) ends.push(20'000);
    CHECK(ends.under_way() == ends.slots());
  }
  CHECK(more_while_full > 0);
  CHECK(fewer_while_full > 0);
}

TEST_CASE(
    "ring: slices that lie one behind another come out as they went in, also beside long ones, and "
    "where the slots become more or fewer",
    "[transport][property]") {
  const auto seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int game = 0; game < 100; game++) {
    const std::uint64_t first_behind = random() % 2 == 0 ? 0 : random() % 100;
    Ends<> ends(1 + random() % kLinkSlots, shm::Ring::kLines, first_behind);
    for (int turn = 0; turn < 300; turn++) {
      CAPTURE(seed, game, turn, first_behind, ends.slots());
      if (random() % 50 == 0) {
        ends.use(1 + random() % (kLinkSlots + 2));
      } else if (random() % 2 == 0 && ends.has_room()) {
        constexpr std::array<std::size_t, 4> kMost = {300, 5'000, 40'000, shm::kSlotBytes};
        const auto bytes = 1 + random() % kMost[random() % kMost.size()];
        // Perhaps room for fewer is asked for first.
        if (random() % 4 == 0) ends.writer.room(1 + random() % bytes);
        ends.push(bytes);
      } else if (ends.under_way() > 0) {
        ends.pop();
      }
    }
    while (ends.under_way() > 0) ends.pop();
    // As many short ones as there are lines may be under way, and a long one still gets a slot.
    CAPTURE(seed, game, first_behind, ends.slots());
    ends.use(kLinkSlots);
    for (std::uint32_t i = 0; i < 2 * kLinkSlots; i++, ends.pop()) ends.push(40'000);
    for (std::uint32_t i = 0; i < shm::Ring::kLines; i++) {
      REQUIRE(ends.has_room());
      ends.push(8'000);
    }
    CHECK_FALSE(ends.has_room());
    CHECK_FALSE(ends.writer.lacks_slot());
    while (ends.under_way() > 1) ends.pop();
    REQUIRE(ends.has_room());
    ends.push(shm::kSlotBytes);
    while (ends.under_way() > 0) ends.pop();
  }
}

TEST_CASE("ring: short slices touch few pages at first, and later all that a link begins with",
          "[transport]") {
  constexpr auto kFirst = shm::RingWriter::kFirstBehind;
  Ends<> ends(kLinkSlots, shm::Ring::kLines, kFirst);
  const auto pages_of = [&](std::uint64_t slices) {
    std::set<std::size_t> pages;
    for (std::uint64_t i = 0; i < slices; i++, ends.pop()) {
      REQUIRE(ends.has_room());
      pages.insert(ends.push(1'000) / 4096);
    }
    return pages.size();
  };
  CHECK(pages_of(kFirst) <= kLinkSlots);
  CHECK(pages_of(kFirst) == kLinkSlots * shm::kSlotBytes / 4096);
}

TEST_CASE("ring: a slice is there when it was pushed, and not before, also when stamps begin anew",
          "[transport]") {
  // 128 stamps, which wrap around many times.
  using Ring = shm::BasicRing<std::atomic, 32, 4, std::uint8_t>;
  Ends<Ring> ends(2, Ring::kLines);
  std::mt19937 random(1);
  for (int pushed = 0; pushed < 2000;) {
    CAPTURE(pushed);
    CHECK(ends.is_there() == (ends.under_way() > 0));
    if (ends.has_room() && random() % 2 == 0) {
      ends.push(random() % 300);
      pushed++;
    } else if (ends.under_way() > 0) {
      ends.pop();
    }
  }
}
