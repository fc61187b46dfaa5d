// SPDX-License-Identifier: Apache-2.0
// How ranks meet to exchange descriptors, and which connections are refused.
#include "gpu/exchange_door.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <catch2/catch.hpp>
#include <future>
#include <vector>

using namespace ccoll;
using namespace ccoll::device;
using namespace std::chrono_literals;

namespace {

Exchange::TimePoint in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

/// All ranks' words, as rank `rank` receives them.
Result<std::string> words(ExchangeDoor& door, std::uint32_t rank,
                          std::span<const DoorAddress> addresses, Exchange::TimePoint deadline) {
  const auto exchange = door.meet(rank, addresses, deadline);
  if (!exchange) return tl::unexpected(exchange.error());
  const auto parcels = (*exchange)->swap(fmt::format("<{}>", rank), {}, deadline);
  if (!parcels) return tl::unexpected(parcels.error());
  std::string all;
  for (const auto& parcel : *parcels) all += parcel.bytes;
  return all;
}

/// A socket connected to the door.
FileDescriptor knock(const DoorAddress& door) {
  FileDescriptor made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const auto text = fmt::format("ccoll-gpu-{:016x}{:016x}", door.name[0], door.name[1]);
  text.copy(name.sun_path + 1, sizeof name.sun_path - 1);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  REQUIRE(connect(made.number(), reinterpret_cast<const sockaddr*>(&name), bytes) == 0);
  return made;
}

}  // namespace

TEST_CASE("exchange: ranks that have each other's addresses meet, whoever else comes",
          "[engine][device]") {
  constexpr std::uint32_t kRanks = 4;
  std::vector<ExchangeDoor> doors;
  std::vector<DoorAddress> addresses;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    auto door = ExchangeDoor::open();
    REQUIRE(door);
    addresses.push_back(door->address());
    doors.push_back(std::move(*door));
  }
  // One stranger disconnects, and one knows the name but not the secret.
  knock(addresses[0]).close();
  const auto stranger = knock(addresses[1]);
  const std::string guess(24, '\x01');
  REQUIRE(send(stranger.number(), guess.data(), guess.size(), 0) == 24);
  std::vector<std::future<Result<std::string>>> met;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    met.push_back(std::async(std::launch::async,
                             [&, rank] { return words(doors[rank], rank, addresses, in(30s)); }));
  }
  for (auto& each : met) CHECK(each.get() == "<0><1><2><3>");
}

TEST_CASE("exchange: a rank that does not come is waited for no longer than one likes",
          "[engine][device]") {
  auto here = ExchangeDoor::open(), there = ExchangeDoor::open();
  REQUIRE((here && there));
  const std::vector<DoorAddress> addresses = {here->address(), there->address()};
  const auto alone = here->meet(0, addresses, in(30ms));
  REQUIRE_FALSE(alone);
  CHECK(alone.error().kind == ErrorKind::timed_out);
  const std::vector<DoorAddress> gone = {DoorAddress{{1, 2}, {3, 4}}, there->address()};
  const auto refused = there->meet(1, gone, in(30ms));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("rank 0: its Unix socket cannot be reached") == 0);
}
