// SPDX-License-Identifier: Apache-2.0
#include "comm/groups/costs.hpp"

#include <sched.h>

#include <catch2/catch.hpp>

#include "rendezvous/identity.hpp"

namespace ccoll {
namespace {

struct Place {
  std::uint32_t machine;
  std::uint64_t host;
  std::uint16_t cores;
  std::uint16_t first_core = 0;
};

/// Ranks on machines of four cores, each in a process of its own.
std::vector<PeerAddress> ranks_at(const std::vector<Place>& places) {
  std::vector<PeerAddress> ranks;
  for (const Place& place : places) {
    PeerAddress rank;
    rank.machine = place.machine;
    rank.machine_cores = 4;
    rank.host = place.host;
    rank.cores = place.cores;
    rank.first_core = place.first_core;
    rank.port = 1;
    rank.process = ranks.size() + 1;
    ranks.push_back(rank);
  }
  return ranks;
}

double cores_of(const std::vector<Place>& places) { return cores_per_rank(ranks_at(places)); }

TEST_CASE("costs: hosts are numbered as their ranks come, where that tells anything", "[comm]") {
  using Hosts = std::vector<std::uint32_t>;
  CHECK(hosts_of(ranks_at({{1, 9, 4}, {2, 7, 4}, {1, 9, 4}, {3, 8, 4}})) == Hosts{0, 1, 0, 2});
  CHECK(hosts_of(ranks_at({{1, 9, 4}, {1, 9, 4}})).empty());
  CHECK(hosts_of(ranks_at({{1, 9, 4}, {2, 8, 4}})).empty());
}

TEST_CASE("costs: ranks of one machine share its cores, whatever hosts they are on", "[comm]") {
  CHECK(cores_of({{1, 1, 4}, {1, 1, 4}}) == 2);
  CHECK(cores_of({{1, 1, 4}, {2, 2, 4}}) == 4);
  CHECK(cores_of({{1, 1, 4}, {2, 2, 4}, {2, 2, 4}}) == 2);  // the worst-off machine
  CHECK(cores_of({{1, 1, 4}, {1, 2, 4}}) == 2);             // two containers see the same cores
  CHECK(cores_of({{1, 1, 1}, {1, 2, 1}}) == 1);             // two containers with one core each
  CHECK(cores_of({{0, 1, 4}, {0, 2, 4}}) == 4);             // the machine is unknown
}

TEST_CASE("costs: ranks that are bound to cores have those together", "[comm]") {
  CHECK(cores_of({{1, 1, 1, 0}, {1, 1, 1, 1}}) == 1);                      // bound to one core each
  CHECK(cores_of({{1, 1, 1, 3}, {1, 1, 1, 3}}) == 0.5);                    // bound to the same core
  CHECK(cores_of({{1, 1, 2, 0}, {1, 1, 2, 0}, {1, 1, 2, 2}}) == 4.0 / 3);  // bound to sockets
  CHECK(cores_of({{1, 1, 4, 0}, {1, 1, 1, 2}}) == 2);  // one is bound; the machine has no more
}

TEST_CASE("costs: who is bound to a core says to which", "[comm]") {
  cpu_set_t before;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  for (std::uint16_t core = 0; core < CPU_SETSIZE; core++) {
    if (!CPU_ISSET(core, &before)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    const auto address = identify();
    sched_setaffinity(0, sizeof before, &before);
    CAPTURE(core);
    CHECK(address.value().cores == 1);
    CHECK(address.value().first_core == core);
  }
}

TEST_CASE("costs: links inside a host are priced by what serves them", "[comm]") {
  const auto two_hosts = ranks_at({{1, 1, 4}, {1, 1, 4}, {2, 2, 4}});
  const CostTable costs = costs_among(two_hosts, "", 2);
  CHECK(costs.links == costs_over("tcp", 2, false).links);
  CHECK(costs.inside == costs_over("shm", 2, true).links);
  CHECK(costs_among(two_hosts, "tcp", 2).inside == costs_over("tcp", 2, true).links);
  // A host with one rank has no internal links, whatever they would cost.
  Tuning dear;
  dear["inproc"] = {.links = {.latency_ns = 1e6}};
  CHECK(costs_among(two_hosts, "", 2, dear).inside == costs_over("shm", 2, true).links);
  const auto one_host = std::span(two_hosts).first(2);
  CHECK(costs_among(one_host, "", 2) == costs_over("shm", 2, true));
}

TEST_CASE("costs: lanes over RDMA have as many ports as the rank that has fewest", "[comm]") {
  auto ranks = ranks_at({{1, 1, 4}, {2, 2, 4}, {3, 3, 4}});
  for (auto& rank : ranks) rank.rails = 4;
  ranks[1].rails = 2;
  CHECK(costs_among(ranks, "verbs", 2).rails == 2);
  CHECK(costs_among(ranks, "tcp", 2).rails == 1);
  ranks[2].rails = 0;
  CHECK(costs_among(ranks, "verbs", 2).rails == 1);
}

}  // namespace
}  // namespace ccoll
