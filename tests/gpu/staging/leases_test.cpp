// SPDX-License-Identifier: Apache-2.0
// Resources of calls in streams of a device that the host plays.
#include "gpu/staging/leases.hpp"

#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "held_by_host.hpp"
#include "support/gpu/cuda_on_host.hpp"
#include "support/gpu/device_buffer.hpp"

using namespace ccoll;
using namespace ccoll::device;
using ccoll::testing::OwnedStream;

namespace {

StagingOptions options_of(std::size_t bytes) {
  return {.device = 0, .ranks = 2, .bytes = bytes, .allocate = [](std::size_t size) {
            return allocate(size);
          }};
}

/// Open ones that no other test has.
struct OpenLeases {
  explicit OpenLeases(std::size_t bytes = 1 << 20) : leases(options_of(bytes)) {
    REQUIRE(leases.open());
  }
  /// A call in the caller's stream.
  Lease take(std::uint64_t bytes, bool in_order = true, bool is_captured = false) {
    StreamOpRequest request;
    request.stream = stream;
    request.ends_in_order = in_order;
    request.is_captured = is_captured;
    auto lease = leases.lease(request, bytes);
    REQUIRE(lease);
    return std::move(*lease);
  }
  const OwnedStream stream;
  Leases leases;
};

bool share(const Lease& a, std::uint64_t a_bytes, const Lease& b, std::uint64_t b_bytes) {
  return a.data < b.data + b_bytes && b.data < a.data + a_bytes;
}

}  // namespace

TEST_CASE("leases: the shares of a communicator's memory are all of it, but for very little memory",
          "[gpu][unit]") {
  for (std::uint64_t bytes = 1; bytes <= 1 << 30; bytes += 1 + bytes / 3) {
    CAPTURE(bytes);
    const auto shares = Shares::of(bytes);
    CHECK(shares.messages == shares.pieces);
    CHECK(shares.messages % 4096 == 0);
    CHECK(shares.messages >= 4096);
    if (bytes <= 4 * 4096)
      CHECK(shares.ring == bytes);
    else
      CHECK(shares.ring + shares.messages + shares.pieces == bytes);
    // Collectives have most of it.
    CHECK(2 * shares.ring >= bytes);
  }
}

TEST_CASE("leases: a call in order has a piece of the ring, one that is too long other memory",
          "[gpu]") {
  OpenLeases open;
  auto& leases = open.leases;
  const auto ring = leases.ring_bytes();
  auto first = open.take(ring / 2), second = open.take(ring / 2);
  CHECK(first.piece);
  CHECK(second.piece);
  CHECK_FALSE(first.must_wait_for_room);
  CHECK_FALSE(second.must_wait_for_room);
  CHECK_FALSE(share(first, ring / 2, second, ring / 2));
  // The next one waits in its stream, until room is told to its word.
  auto third = open.take(100);
  CHECK(third.must_wait_for_room);
  CHECK(third.words->room == 0);
  leases.give_back(std::move(first));
  CHECK(third.words->room == 1);
  leases.give_back(std::move(second));
  leases.give_back(std::move(third));

  const auto held = leases.held_bytes();
  auto large = open.take(ring + 1);
  CHECK_FALSE(large.piece);
  REQUIRE(large.apart);
  CHECK(leases.held_bytes() == held + large.apart->bytes());
  // It is kept for the next one of about that size.
  const auto* const memory = large.data;
  leases.give_back(std::move(large));
  auto next = open.take(ring + 2);
  CHECK(next.data == memory);
  CHECK(leases.held_bytes() == held + next.apart->bytes());
  leases.give_back(std::move(next));
  // A graph may run again at any time: the ring is not for its calls.
  auto captured = open.take(100, true, true);
  CHECK_FALSE(captured.piece);
  CHECK(captured.apart);
  CHECK(captured.end == nullptr);
  leases.give_back(std::move(captured));
}

TEST_CASE("leases: a message has a block as long as there is one, and gives it back in any order",
          "[gpu]") {
  OpenLeases open(1 << 20);
  auto& leases = open.leases;
  const auto share_bytes = Shares::of(1 << 20).messages;
  auto first = open.take(share_bytes / 2, false), second = open.take(share_bytes / 2, false);
  CHECK(first.block);
  CHECK(second.block);
  CHECK_FALSE(share(first, share_bytes / 2, second, share_bytes / 2));
  CHECK_FALSE(leases.has_block(1));
  auto third = open.take(100, false);
  CHECK_FALSE(third.block);
  CHECK(third.apart);
  const auto* const place = second.data;
  leases.give_back(std::move(second));
  CHECK(leases.has_block(share_bytes / 2));
  auto fourth = open.take(100, false);
  CHECK(fourth.block);
  CHECK(fourth.data == place);
  leases.give_back(std::move(first));
  leases.give_back(std::move(fourth));
  leases.give_back(std::move(third));
  CHECK(leases.has_block(share_bytes));
}

TEST_CASE("leases: words are fresh and nobody else's, however many calls have some", "[gpu]") {
  OpenLeases open;
  std::vector<Lease> all;
  std::set<Words*> words;
  for (int i = 0; i < 1200; i++) {
    all.push_back(open.take(0));
    auto& lease = all.back();
    CHECK(words.insert(lease.words).second);
    CHECK(lease.words->go == 0);
    CHECK(lease.words->room == 0);
    lease.words->go = lease.words->room = 7;
  }
  for (auto& each : all) open.leases.give_back(std::move(each));
  auto again = open.take(0);
  CHECK(words.contains(again.words));
  CHECK(again.words->go == 0);
  CHECK(again.words->room == 0);
  open.leases.give_back(std::move(again));
}

TEST_CASE("leases: what a stream has yet to pass comes back when it has", "[gpu]") {
  OpenLeases open;
  auto& leases = open.leases;
  const auto ring = leases.ring_bytes();
  auto lease = open.take(ring);
  testing::HeldByHost held(open.stream);
  testing::check_cuda(cudaEventRecord(lease.end.get(), open.stream), "recording an event");
  leases.give_back_later(std::move(lease));
  CHECK_FALSE(leases.is_passed());
  auto early = open.take(ring);
  CHECK(early.must_wait_for_room);
  held.go_on();
  CHECK(leases.is_passed());
  // The next lease finds it out.
  CHECK(early.words->room == 0);
  auto late = open.take(0);
  CHECK(early.words->room == 1);
  leases.give_back(std::move(early));
  leases.give_back(std::move(late));
}

TEST_CASE("leases: rooms are the device's memory, kept for those of about their size",
          "[gpu][property]") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  OpenLeases open;
  std::vector<std::pair<std::shared_ptr<std::byte>, std::uint64_t>> rooms;
  for (int i = 0; i < 300; i++) {
    CAPTURE(seed, i);
    if (rooms.size() > 5 || (random() % 2 == 0 && !rooms.empty())) {
      std::swap(rooms[random() % rooms.size()], rooms.back());
      rooms.pop_back();
      continue;
    }
    const auto bytes = std::uint64_t{1} << random() % 20 | random() % 1000;
    const auto room = open.leases.room(bytes);
    REQUIRE(room);
    CHECK(device_of(room->get()) == 0);
    CHECK(bytes_of_allocation_from(room->get()) >= bytes);
    for (const auto& [other, other_bytes] : rooms)
      CHECK((room->get() + bytes <= other.get() || other.get() + other_bytes <= room->get()));
    rooms.emplace_back(*room, bytes);
  }
  rooms.clear();
  // The last one is the first to serve again, without more memory.
  auto first = open.leases.room(1'000'000).value();
  const auto* const place = first.get();
  const auto held = open.leases.held_bytes();
  first.reset();
  CHECK(open.leases.room(1'000'001).value().get() == place);
  CHECK(open.leases.held_bytes() == held);
}

TEST_CASE("leases: idle ones serve the next communicator that wants such, with its ranks",
          "[gpu]") {
  auto first = Leases::take(options_of(1 << 20));
  REQUIRE(first->open());
  const auto other = Leases::take(options_of(1 << 21));
  REQUIRE(other->open());
  CHECK(first.get() != other.get());
  const auto* const place = first.get();
  // Another is in use, so CUDA gets nothing back.
  first.reset();
  auto options = options_of(1 << 20);
  options.ranks = 7;
  const auto next = Leases::take(options);
  CHECK(next.get() == place);
  REQUIRE(next->take_pieces());
  CHECK(next->pieces()->ranks() == 7);
  // One that is not open yet serves nobody else.
  Leases::take(options_of(1 << 19)).reset();
  const auto fresh = Leases::take(options_of(1 << 19));
  CHECK_FALSE(fresh->is_like(options_of(1 << 19)));
}

TEST_CASE("leases: where the device is full, opening and rooms fail and say with what", "[gpu]") {
  OpenLeases open;
  cuda_on_host_is_full(true);
  const auto room = open.leases.room(1 << 22);
  Leases closed(options_of(1 << 20));
  const auto opened = closed.open();
  cuda_on_host_is_full(false);
  REQUIRE_FALSE(room);
  CHECK(room.error().kind == ErrorKind::exhausted);
  CHECK_THAT(room.error().message,
             Catch::Matchers::StartsWith("allocating 4194304 bytes on a GPU"));
  REQUIRE_FALSE(opened);
  CHECK(opened.error().kind == ErrorKind::exhausted);
  // It can be tried again.
  CHECK(closed.open());
  CHECK(open.leases.room(1 << 22));
}
