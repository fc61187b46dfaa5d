// SPDX-License-Identifier: Apache-2.0
#include "control/connections/edges.hpp"

#include <catch2/catch.hpp>

#include "control/parts.hpp"

namespace ccoll::control {

TEST_CASE("edges: the nearest peer is nearer than this rank, or there is none", "[unit]") {
  asio::io_context context;
  Wires wires(context, 5, 20);
  CHECK(wires.edges.nearest(9) == nullptr);
  for (const std::uint32_t peer : {2u, 8u, 12u}) wires.add(peer);
  const auto nearest = [&](std::uint32_t rank) -> std::uint32_t {
    const Edge* const edge = wires.edges.nearest(rank);
    return edge == nullptr ? 5 : edge->peer();
  };
  CHECK(nearest(0) == 2);
  CHECK(nearest(4) == 5);
  CHECK(nearest(9) == 8);
  CHECK(nearest(11) == 12);
  CHECK(nearest(19) == 12);
}

TEST_CASE("edges: a lost rank's connection counts no longer, and still gets what was sent",
          "[unit]") {
  asio::io_context context;
  Wires wires(context, 0, 4);
  wires.add(1);
  wires.add(2);
  Edge& lost = *wires.edges.find(1);
  CHECK(wires.edges.counts(lost));
  wires.edges.forward(encode_beat(1), 2);
  const auto edge = wires.edges.dismiss(1);
  REQUIRE(edge.get() == &lost);
  CHECK(wires.edges.dismiss(1) == nullptr);
  CHECK_FALSE(wires.edges.counts(lost));
  CHECK_FALSE(wires.edges.contains(1));
  wires.edges.forward(encode_beat(2), 3);
  CHECK(wires.got(1) == std::vector{Type::beat});
  CHECK(wires.got(2) == std::vector{Type::beat});
  CHECK(wires.traffic.value().sent == 2);
  // Its end is no news, and forgets it; a peer's is.
  CHECK(edge.use_count() == 2);
  CHECK_FALSE(wires.edges.remove(*edge));
  CHECK(edge.use_count() == 1);
  const auto other = wires.edges.find(2)->shared_from_this();
  CHECK(wires.edges.remove(*other));
  CHECK(wires.edges.empty());
}

}  // namespace ccoll::control
