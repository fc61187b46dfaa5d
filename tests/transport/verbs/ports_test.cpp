// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/ports.hpp"

#include <catch2/catch.hpp>

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
