// SPDX-License-Identifier: Apache-2.0
#include "comm/record/peer_table.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace ccoll::test {
namespace {

constexpr Rank kPeers = 5;

/// The transport to each rank as the table is told it; unknown for the last one.
std::string transport_to(Rank peer) {
  return peer + 1 == kPeers ? "" : std::array{"shm", "tcp"}[peer % 2];
}

/// Counts as a table's parts may have them; half of each are zero.
struct PartsCounts {
  explicit PartsCounts(std::mt19937& random) {
    const auto some = [&] { return random() % 2 == 0 ? std::uint64_t{0} : random() % 1000; };
    for (Rank peer = 0; peer < kPeers; peer++) {
      for (const std::string_view transport : {"", "shm", "tcp", "verbs"})
        if (random() % 3 == 0)
          traffic[{peer, transport}] = {some(), some(), some(), some(), some()};
      for (auto sleeps = random() % 3; sleeps > 0; sleeps--)
        losses.slept({peer}, std::chrono::nanoseconds(some()));
      for (auto failures = random() % 3; failures > 0; failures--) losses.failed(peer);
      if (random() % 2 == 0) refused[peer] = some();
    }
  }

  TrafficTable traffic;
  Losses losses;
  std::map<Rank, std::uint64_t> refused;
};

/// One row of the table by definition.
PeerCounters expected_of(const PartsCounts& parts, Rank peer, const std::string& transport) {
  const bool is_own = transport == transport_to(peer);
  PeerCounters sum{.rank = static_cast<int>(peer), .transport = transport};
  for (const auto& [key, traffic] : parts.traffic) {
    if (key.first != peer || (key.second.empty() ? !is_own : key.second != transport)) continue;
    sum.messages_sent += traffic.messages_sent;
    sum.bytes_sent += traffic.bytes_sent;
    sum.messages_received += traffic.messages_received;
    sum.bytes_received += traffic.bytes_received;
    sum.retries += traffic.retries;
  }
  // Losses and refusals are the pair's, whatever the link.
  if (!is_own) return sum;
  if (const auto lost = parts.losses.by_peer().find(peer); lost != parts.losses.by_peer().end()) {
    sum.waits = lost->second.waits;
    sum.time_lost = lost->second.time;
    sum.errors = lost->second.errors;
  }
  if (const auto refused = parts.refused.find(peer); refused != parts.refused.end())
    sum.errors += refused->second;
  return sum;
}

bool counts_anything(const PeerCounters& peer) {
  return peer.messages_sent > 0 || peer.messages_received > 0 || peer.waits > 0 ||
         peer.retries > 0 || peer.errors > 0;
}

}  // namespace

TEST_CASE("peer table: nothing is lost or counted twice, and counts stay with rank and transport",
          "[comm][unit][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int trial = 0; trial < 200; trial++) {
    const PartsCounts parts(random);
    PeerTable table(&transport_to);
    // In any order.
    std::array<std::function<void()>, 3> adding{[&] { table.add(parts.traffic); },
                                                [&] { table.add(parts.losses); },
                                                [&] { table.add_refused(parts.refused); }};
    std::ranges::shuffle(adding, random);
    for (const auto& add : adding) add();
    auto peers = table.peers();
    CHECK(std::ranges::is_sorted(peers, {}, &PeerCounters::rank));
    for (Rank peer = 0; peer < kPeers; peer++)
      for (const std::string transport : {"", "shm", "tcp", "verbs"}) {
        CAPTURE(peer, transport);
        const auto expected = expected_of(parts, peer, transport);
        CHECK(std::ranges::count(peers, expected) == (counts_anything(expected) ? 1 : 0));
        std::erase(peers, expected);
      }
    CHECK(peers.empty());
  }
}

}  // namespace ccoll::test
