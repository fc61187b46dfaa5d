// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/device/ports.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "net/peer_address.hpp"

using namespace ccoll;
using namespace ccoll::verbs;

namespace {

GidBytes ipv4(std::uint8_t last) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last};
}
GidBytes link_local() { return {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}; }
GidBytes global() { return {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}; }

Port roce(std::string device, double gbit_per_s, std::vector<Gid> gids) {
  Port port;
  port.device = std::move(device);
  port.is_active = true;
  port.layer = LinkLayer::ethernet;
  port.gbit_per_s = gbit_per_s;
  port.gids = std::move(gids);
  return port;
}

constexpr auto kInfiniband = static_cast<std::uint8_t>(Fabric::infiniband);
constexpr auto kIpv4 = static_cast<std::uint8_t>(Fabric::roce_ipv4);
constexpr auto kIpv6 = static_cast<std::uint8_t>(Fabric::roce_ipv6);

}  // namespace

TEST_CASE("verbs: a port is in the networks that its addresses are of, while it is active",
          "[transport][verbs]") {
  auto port = roce("a", 10, {{0, link_local(), true}, {1, ipv4(1), true}});
  CHECK(fabrics_of(port) == (kIpv4 | kIpv6));
  port.gids[1].is_roce_v2 = false;
  CHECK(fabrics_of(port) == kIpv6);
  port.layer = LinkLayer::infiniband;
  CHECK(fabrics_of(port) == kInfiniband);
  port.layer = LinkLayer::other;
  CHECK(fabrics_of(port) == 0);
  port.layer = LinkLayer::ethernet;
  port.is_active = false;
  CHECK(fabrics_of(port) == 0);
}

TEST_CASE("verbs: of the networks that two ranks share InfiniBand comes first, then IPv4",
          "[transport][verbs]") {
  CHECK(best_of(kInfiniband | kIpv4 | kIpv6) == Fabric::infiniband);
  CHECK(best_of(kIpv4 | kIpv6) == Fabric::roce_ipv4);
  CHECK(best_of(kIpv6) == Fabric::roce_ipv6);
}

TEST_CASE("verbs: the port on the route to the peer is taken, else the fastest",
          "[transport][verbs]") {
  const std::vector ports = {roce("slow", 10, {{0, link_local(), true}, {3, ipv4(1), true}}),
                             roce("fast", 100, {{0, link_local(), true}, {1, ipv4(2), true}}),
                             roce("old", 400, {{0, ipv4(3), false}})};
  const auto on_route = choose_port(ports, Fabric::roce_ipv4, ipv4(1));
  REQUIRE(on_route);
  CHECK(on_route->port == 0);
  CHECK(on_route->gid_index == 3);
  CHECK(on_route->gid == ipv4(1));
  const auto elsewhere = choose_port(ports, Fabric::roce_ipv4, ipv4(9));
  REQUIRE(elsewhere);
  CHECK(elsewhere->port == 1);
  CHECK(elsewhere->gid_index == 1);
  CHECK_FALSE(choose_port(ports, Fabric::infiniband, ipv4(1)));
  CHECK_FALSE(choose_port({}, Fabric::roce_ipv4, ipv4(1)));
}

TEST_CASE(
    "verbs: an address that somebody has given a port comes before its own, whatever the speed",
    "[transport][verbs]") {
  const std::vector ports = {roce("fast", 100, {{0, link_local(), true}}),
                             roce("slow", 10, {{0, link_local(), true}, {2, global(), true}})};
  const auto chosen = choose_port(ports, Fabric::roce_ipv6, ipv4(1));
  REQUIRE(chosen);
  CHECK(chosen->port == 1);
  CHECK(chosen->gid_index == 2);
}

TEST_CASE("verbs: CCOLL_IB_HCA takes devices by prefix, exactly, or all but these",
          "[transport][verbs]") {
  const auto takes = [](std::string_view text, std::string_view device, std::uint8_t port = 1) {
    const auto filter = PortFilter::parse(text);
    REQUIRE(filter);
    return filter->takes(device, port);
  };
  CHECK(takes("", "anything", 2));
  CHECK(takes("mlx5,rxe0", "mlx5_3"));
  CHECK(takes("mlx5,rxe0", "rxe0", 2));
  CHECK_FALSE(takes("mlx5,rxe0", "rxe1"));
  CHECK(takes("mlx5:2", "mlx5_0", 2));
  CHECK_FALSE(takes("mlx5:2", "mlx5_0", 1));
  CHECK(takes("=mlx5_1", "mlx5_1"));
  CHECK_FALSE(takes("=mlx5_1", "mlx5_10"));
  CHECK_FALSE(takes("^mlx5_1", "mlx5_10"));
  CHECK(takes("^=mlx5_1", "mlx5_10"));
  CHECK_FALSE(takes("^=mlx5_1", "mlx5_1"));
  CHECK(takes("^rxe0:1", "rxe0", 2));
}

TEST_CASE("verbs: a CCOLL_IB_HCA that makes no sense is refused, and named", "[transport][verbs]") {
  for (const char* text : {"mlx5:", "mlx5:x", "mlx5:0", "mlx5:256", ":1", "a,,b", "a:1x"}) {
    CAPTURE(text);
    const auto filter = PortFilter::parse(text);
    REQUIRE_FALSE(filter);
    CHECK(filter.error().kind == ErrorKind::invalid_argument);
    CHECK_THAT(filter.error().message, Catch::Contains(text));
  }
}

namespace {

/// A port's address in the network of that number.
Gid in_network(std::uint8_t network, std::uint8_t host, int index = 1) {
  Gid gid{index, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, network, host}, true};
  GidBytes mask;
  mask.fill(0xff);
  mask[15] = 0;
  gid.network = network_of(gid.bytes, mask);
  return gid;
}

std::vector<std::string> names(const std::vector<PortChoice>& choices,
                               const std::vector<Port>& ports) {
  std::vector<std::string> all;
  for (const auto& each : choices) all.push_back(ports[each.port].device);
  return all;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("verbs: lanes are spread over active ports of the same speed whose network is known",
          "[transport][verbs]") {
  std::vector ports = {roce("storage", 25, {in_network(9, 1)}), roce("a", 100, {in_network(1, 1)}),
                       roce("b", 100, {{0, link_local(), true}, in_network(2, 1, 3)}),
                       roce("unknown", 100, {{0, ipv4(7), true}}),
                       roce("own", 100, {{0, link_local(), true}})};
  auto rails = rails_in(ports, Fabric::roce_ipv4);
  CHECK(names(rails, ports) == Names{"a", "b"});
  CHECK(rails[1].gid_index == 3);
  CHECK(rails_in(ports, Fabric::roce_ipv6).empty());
  ports[1].is_active = ports[2].is_active = ports[3].is_active = false;
  CHECK(names(rails_in(ports, Fabric::roce_ipv4), ports) == Names{"storage"});
  ports.assign(20, roce("many", 100, {in_network(1, 1)}));
  CHECK(rails_in(ports, Fabric::roce_ipv4).size() == kMostRails);
}

TEST_CASE("verbs: both ends pair their ports by network, whatever order and number they have",
          "[transport][verbs]") {
  using Networks = std::vector<std::uint8_t>;
  const auto ports_of = [](const Networks& networks) {
    std::vector<Port> ports;
    for (const auto network : networks)
      ports.push_back(roce(fmt::format("p{}", ports.size()), 100, {in_network(network, 1)}));
    return ports;
  };
  const auto told = [](const std::vector<PortChoice>& rails) {
    std::vector<GidBytes> networks;
    for (const auto& each : rails) networks.push_back(each.network);
    return networks;
  };
  const auto pair = [&](const Networks& mine, const Networks& theirs) {
    const auto ports = ports_of(mine), others = ports_of(theirs);
    const auto here = rails_in(ports, Fabric::roce_ipv4),
               there = rails_in(others, Fabric::roce_ipv4);
    const auto ours = matched(here, told(there)), peers = matched(there, told(here));
    CHECK(told(ours) == told(peers));
    return std::pair(names(ours, ports), names(peers, others));
  };
  CHECK(pair({1, 2}, {1, 2}) == std::pair(Names{"p0", "p1"}, Names{"p0", "p1"}));
  CHECK(pair({2, 1}, {1, 2}) == std::pair(Names{"p1", "p0"}, Names{"p0", "p1"}));
  CHECK(pair({1, 1, 2}, {3, 1, 2}) == std::pair(Names{"p0", "p2"}, Names{"p1", "p2"}));
  CHECK(pair({1, 1}, {1, 1, 1}) == std::pair(Names{"p0", "p1"}, Names{"p0", "p1"}));
  CHECK(pair({1, 2}, {3, 4}) == std::pair(Names{}, Names{}));
}

TEST_CASE("verbs: a port's network is its subnet's prefix, or its address under the mask",
          "[transport][verbs]") {
  CHECK(subnet_of(global()) == GidBytes{0xfd});
  CHECK(subnet_of(link_local()) == GidBytes{0xfe, 0x80});
  GidBytes mask;
  mask.fill(0xff);
  mask[14] = 0xf0, mask[15] = 0;
  CHECK(network_of({0xfd, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34}, mask) ==
        GidBytes{0xfd, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10});
  // Every network has such addresses.
  CHECK(network_of(link_local(), mask) == GidBytes{});
}
