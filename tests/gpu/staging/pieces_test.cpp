// SPDX-License-Identifier: Apache-2.0
// Messages of any length through pieces of bounded memory: the data, the number of steps, and that
// nothing stalls while steps are made.
#include "gpu/staging/pieces.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "gpu/staging/device_to_host.hpp"
#include "gpu/staging/host_to_device.hpp"
#include "support/effort.hpp"

using namespace ccoll;
using namespace ccoll::device;

namespace {

using Bytes = std::vector<std::byte>;
constexpr std::uint64_t kBudget = 1 << 20;
constexpr std::uint32_t kRanks = 3;

/// Pieces at different addresses on the device and on the host.
struct Room {
  Bytes memory = Bytes(Pieces::bytes_for(kBudget, kRanks) + 256);
  std::byte* const begin =
      memory.data() + (256 - reinterpret_cast<std::uintptr_t>(memory.data()) % 256);
  static constexpr std::uintptr_t kElsewhere = std::uintptr_t{1} << 50;
  Pieces pieces{{begin, begin + kElsewhere}, kBudget, kRanks};
};

/// Makes ordered steps only when told to.
class Steps final : public CopySteps {
 public:
  explicit Steps(std::uint64_t count) : count_(count) {}
  Result<std::uint32_t> order(std::span<const OrderedCopy> copies) override {
    if (ordered_ == count_) return fail(ErrorKind::internal, "no step is left");
    CHECK(copies.size() <= CopyOrder::kMost);
    for (const auto& each : copies) CHECK(misalignment(each.from) == misalignment(each.to));
    waiting_.emplace_back(copies.begin(), copies.end());
    return ++ordered_;
  }
  bool is_over(std::uint32_t step) const override { return step <= made_; }

  /// False if none is left to make.
  bool make_one() {
    if (waiting_.empty()) return false;
    for (const auto& each : waiting_.front())
      std::memcpy(here(each.to), here(each.from), each.bytes);
    waiting_.pop_front();
    ++made_;
    return true;
  }
  std::uint64_t ordered() const { return ordered_; }

 private:
  template <typename T>
  static T* here(T* place) {
    const auto at = reinterpret_cast<std::uintptr_t>(place);
    return at >= Room::kElsewhere ? place - Room::kElsewhere : place;
  }

  const std::uint64_t count_;
  std::deque<std::vector<OrderedCopy>> waiting_;
  std::uint32_t ordered_ = 0, made_ = 0;
};

Bytes content(std::size_t bytes, std::mt19937& random) {
  Bytes all(bytes);
  std::ranges::generate(all, [&] { return std::byte(random() >> 7); });
  return all;
}

std::size_t some_bytes(std::uint64_t piece, std::mt19937& random) {
  const std::uint64_t borders[] = {1, piece, 2 * piece, 3 * piece, 7 * piece};
  return borders[random() % 5] + (random() % 2 == 0 ? random() % 3 : random() % (2 * piece));
}

}  // namespace

TEST_CASE("pieces: as large as fits for all ranks, within what makes sense", "[engine]") {
  CHECK(Pieces::bytes_for(8 << 20, 2) == 8 << 20);
  CHECK(Pieces::bytes_for(8 << 20, 3) <= 8 << 20);
  CHECK(Pieces::bytes_for(8 << 20, 32) == 8 << 20);
  CHECK(Pieces::bytes_for(1 << 30, 2) == 16 << 20);
  CHECK(Pieces::bytes_for(8 << 20, 100) == 25 << 20);
  CHECK(Pieces::bytes_for(1, 1) == 256 << 10);
}

TEST_CASE("pieces: the steps of any messages have room in a stream, or they are copied as a whole",
          "[engine][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2000; i++) {
    const auto lengths = [&] {
      std::vector<MemoryRange> some(random() % (random() % 4 == 0 ? 150 : 8));
      for (auto& each : some) each = {nullptr, 1 + (random() >> (20 + random() % 44))};
      return some;
    };
    const auto lifted = lengths(), landed = lengths();
    const std::uint64_t piece = (std::uint64_t{64 << 10} << random() % 6) - Pieces::kMargin;
    const auto plan = PiecePlan::of(lifted, landed, piece);
    CHECK(plan.messages == lifted.size() + landed.size());
    std::uint64_t steps = 0, bytes = 0;
    for (const auto& each : lifted) {
      steps += StagedDeviceToHost::steps(each.bytes, plan.piece_bytes);
      bytes += each.bytes;
    }
    for (const auto& each : landed) {
      steps += StagedHostToDevice::steps(each.bytes, plan.piece_bytes);
      bytes += each.bytes;
    }
    CHECK(plan.steps == steps);
    if (!plan.pays_off()) continue;
    CHECK(steps <= PiecePlan::kMostSteps);
    if (plan.are_own)
      CHECK(plan.messages * plan.own_bytes() <= bytes / 2 + plan.messages * (128 << 10));
    else
      CHECK(plan.piece_bytes == piece);
  }
}

TEST_CASE("pieces: two of each rank and way are one message's at a time, and nobody else's",
          "[engine]") {
  Room room;
  Piece first;
  std::vector<std::byte*> begins;
  for (const auto way : {Pieces::Direction::out, Pieces::Direction::in}) {
    for (std::uint32_t rank = 0; rank < kRanks; rank++) {
      REQUIRE(room.pieces.take(way, rank, first));
      CHECK_FALSE(room.pieces.take(way, rank, first));
      CHECK(first.here + Room::kElsewhere == first.on_device);
      begins.push_back(first.here);
    }
  }
  std::ranges::sort(begins);
  CHECK(begins.front() >= room.begin);
  for (std::size_t i = 1; i < begins.size(); i++)
    CHECK(begins[i] >= begins[i - 1] + 2 * room.pieces.stride());
  CHECK(begins.back() + 2 * room.pieces.stride() <=
        room.begin + Pieces::bytes_for(kBudget, kRanks));
  room.pieces.give_back(Pieces::Direction::in, 1);
  CHECK(room.pieces.take(Pieces::Direction::in, 1, first));
}

TEST_CASE("pieces: what is lifted is what was there, in as many steps as were said",
          "[engine][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  Room room;
  const auto piece = room.pieces.piece_bytes();
  for (int i = 0; i < testing::by_effort(20, 100, 1000); i++) {
    const auto bytes = some_bytes(piece, random);
    const auto rank = static_cast<std::uint32_t>(random() % kRanks);
    const std::size_t before = random() % 40;
    const auto there = content(before + bytes, random);
    Steps steps(StagedDeviceToHost::steps(bytes, piece));
    StagedDeviceToHost to_host(steps, PieceRoom(room.pieces));
    Bytes got;
    to_host.begin(rank, there.data() + before, bytes);
    while (got.size() < bytes) {
      REQUIRE(to_host.lift());
      const auto lifted = to_host.lifted();
      if (lifted.empty() || random() % 4 == 0) {
        const bool made = steps.make_one();
        const bool freed = to_host.take_back();
        if (lifted.empty()) REQUIRE((made || freed));
        continue;
      }
      const auto some = std::min<std::size_t>(lifted.size(), 1 + random() % piece);
      got.insert(got.end(), lifted.begin(), lifted.begin() + static_cast<std::ptrdiff_t>(some));
      to_host.lend(some);
    }
    CHECK(std::equal(got.begin(), got.end(), there.begin() + static_cast<std::ptrdiff_t>(before)));
    CHECK(steps.ordered() == StagedDeviceToHost::steps(bytes, piece));
    Piece first;
    CHECK_FALSE(room.pieces.take(Pieces::Direction::out, rank, first));
    CHECK(to_host.take_back());
    CHECK(room.pieces.take(Pieces::Direction::out, rank, first));
    room.pieces.give_back(Pieces::Direction::out, rank);
  }
}

TEST_CASE("pieces: what lands is where it belongs, in no more steps than were said",
          "[engine][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  Room room;
  const auto piece = room.pieces.piece_bytes();
  for (int i = 0; i < testing::by_effort(20, 100, 1000); i++) {
    const auto bytes = some_bytes(piece, random);
    const auto rank = static_cast<std::uint32_t>(random() % kRanks);
    const std::size_t before = random() % 40;
    const auto sent = content(bytes, random);
    Bytes there(before + bytes + 7, std::byte{0xa5});
    Bytes expected = there;
    // Another writer puts some of it there.
    const bool has_gaps = random() % 2 == 0;
    Steps steps(StagedHostToDevice::steps(bytes, piece));
    StagedHostToDevice to_device(steps, PieceRoom(room.pieces));
    const auto slice = has_gaps || random() % 2 == 0 ? to_device.most_bytes()
                                                     : 1 + random() % to_device.most_bytes();
    to_device.begin(rank);
    for (std::size_t at = 0; at < bytes;) {
      const auto some = std::min<std::size_t>(bytes - at, slice);
      if (has_gaps && random() % 3 == 0) {
        at += some;
        continue;
      }
      std::byte* const to = there.data() + before + at;
      std::byte* const place = to_device.room(to, some);
      if (place == nullptr) {
        REQUIRE(steps.make_one());
        continue;
      }
      CHECK(to_device.room(to, some) == place);
      std::memcpy(place, sent.data() + at, some);
      REQUIRE(to_device.fill(some));
      std::memcpy(expected.data() + before + at, sent.data() + at, some);
      at += some;
      if (random() % 3 == 0) steps.make_one();
    }
    REQUIRE(to_device.take_off());
    while (!to_device.is_over()) REQUIRE(steps.make_one());
    CHECK(there == expected);
    Piece first;
    CHECK(room.pieces.take(Pieces::Direction::in, rank, first));
    room.pieces.give_back(Pieces::Direction::in, rank);
  }
}
