// SPDX-License-Identifier: Apache-2.0
#include "comm/failures/remarks.hpp"

#include <catch2/catch.hpp>

namespace ccoll {
namespace {

/// Ranks on hosts of `per_host` each; ranks 0 and 1 are threads of one process.
std::vector<PeerAddress> table_of(std::uint32_t size, std::uint32_t per_host) {
  std::vector<PeerAddress> table(size);
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    table[rank].ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
    table[rank].port = static_cast<std::uint16_t>(4000 + rank);
    table[rank].cores = 2;
    table[rank].host = rank / per_host;
    table[rank].process = rank == 1 ? 0 : rank;
    table[rank].pid = 100 + rank;
  }
  return table;
}

Introduction facts_of(std::uint32_t rank, const std::vector<PeerAddress>& table) {
  Introduction facts;
  facts.rank = rank;
  facts.table = table;
  facts.host = "node0";
  facts.interface = "eth0";
  facts.why_there = "the route to the store at 10.0.0.9:29500";
  for (const PeerAddress& peer : table)
    facts.transports.push_back(peer.process == table[rank].process ? "inproc" : "tcp");
  return facts;
}

}  // namespace

TEST_CASE("an introduction says who, where, and which transport to whom and why", "[comm][unit]") {
  const auto table = table_of(8, 4);
  CHECK(
      introduction(facts_of(0, table)) ==
      std::vector<std::string>{
          "rank 0 of 8: host node0, pid 100, 4 ranks and 2 cores here; listens at 10.0.0.1:4000 "
          "(eth0, the route to the store at 10.0.0.9:29500)",
          "rank 0: inproc to rank 1 (threads of this process); tcp to ranks 2, 3 (other processes "
          "of this host) and ranks 4-7 (other hosts); the best that reaches them"});
  auto forced = facts_of(5, table);
  forced.transport_forced = true;
  CHECK(introduction(forced)[1] ==
        "rank 5: tcp to ranks 4, 6, 7 (other processes of this host) and ranks 0-3 (other hosts); "
        "that transport was asked for");
}

TEST_CASE("an introduction is short, alone and among thousands", "[comm][unit]") {
  const auto alone = table_of(1, 1);
  CHECK(introduction(facts_of(0, alone)) ==
        std::vector<std::string>{"rank 0 of 1: host node0, pid 100, 1 rank and 2 cores here"});
  auto many = table_of(24'576, 8);
  for (std::uint32_t rank = 0; rank < many.size(); ++rank) many[rank].host = rank % 3072;
  for (const auto& line : introduction(facts_of(7, many))) CHECK(line.size() < 500);
}

}  // namespace ccoll
