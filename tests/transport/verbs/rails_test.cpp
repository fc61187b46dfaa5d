// SPDX-License-Identifier: Apache-2.0
// Links over RDMA between ranks with several ports, on the in-memory device of tests/rdma.
#include <catch2/catch.hpp>

#include "rdma/device.hpp"
#include "rdma/faults.hpp"
#include "transport/pair.hpp"

using namespace ccoll;
using namespace ccoll::testing;

namespace {

constexpr std::size_t kPorts = 3;

/// Runs before any test opens the device.
const bool kHasThem = (rdma::set_ports(kPorts), true);

/// Links of several lanes in both directions.
class Lanes {
 public:
  explicit Lanes(const Pair::Setting& setting = {}) {
    pair.emplace(*find_transport("verbs"), setting);
  }

  void open(std::uint32_t from, std::uint16_t lane) {
    const LinkId id{pair->communicator, from, 1 - from, lane};
    sender = pair->of(from).open_send(id, pair->waiters[from]).value();
    receiver = pair->of(1 - from).open_receive(id, pair->waiters[1 - from]).value();
  }
  void exchange(std::uint64_t number) {
    const auto data = pattern(number, 3000);
    push(*sender, number, data);
    const ReceiveLink::View* view = nullptr;
    REQUIRE(eventually(*pair, [&] { return (view = receiver->front()) != nullptr; }));
    REQUIRE(equals(*view, data));
    REQUIRE(receiver->pop());
  }
  /// The ports that slices of that lane use.
  std::vector<std::size_t> ports_of(std::uint16_t lane, std::uint32_t from = 0) {
    std::array<std::uint64_t, 1 + kPorts> before{};
    for (std::size_t port = 1; port <= kPorts; port++) before[port] = rdma::times_sent(port);
    open(from, lane);
    for (std::uint64_t number = 0; number < 20; number++) exchange(number);
    std::vector<std::size_t> ports;
    for (std::size_t port = 1; port <= kPorts; port++)
      if (rdma::times_sent(port) >= before[port] + 20) ports.push_back(port);
    return ports;
  }
  void tell(ibv_event_type event, int port) {
    rdma::tell(event, port);
    REQUIRE(eventually(*pair, [] { return rdma::untold() == 0; }));
  }

  std::optional<Pair> pair;
  std::unique_ptr<SendLink> sender;
  std::unique_ptr<ReceiveLink> receiver;
};

using Ports = std::vector<std::size_t>;

}  // namespace

TEST_CASE("rails: the lanes of two ranks are spread over the ports that both have",
          "[transport][verbs]") {
  REQUIRE(kHasThem);
  for (const std::uint32_t from : {0, 1}) {
    Lanes lanes;
    for (std::uint16_t lane = 0; lane < 2 * kPorts; lane++) {
      CAPTURE(lane, from);
      CHECK(lanes.ports_of(lane, from) == Ports{1 + lane % kPorts});
    }
  }
}

TEST_CASE("rails: which ports these are is said", "[transport][verbs]") {
  CHECK_THAT(describe_fabrics().front(),
             Catch::Contains("lanes are spread over fake0 port 1, fake0 port 2, fake0 port 3"));
}

TEST_CASE("rails: both directions of a lane use one queue pair", "[transport][verbs]") {
  Lanes lanes;
  lanes.open(0, 1);
  lanes.exchange(0);
  const auto there = std::pair(std::move(lanes.sender), std::move(lanes.receiver));
  lanes.open(1, 1);
  lanes.exchange(0);
  CHECK(rdma::objects().pairs == 2);
}

TEST_CASE("rails: what is opened while a port is down takes the others", "[transport][verbs]") {
  Lanes lanes;
  lanes.tell(IBV_EVENT_PORT_ERR, 2);
  CHECK(lanes.ports_of(0) == Ports{1});
  CHECK(lanes.ports_of(1) == Ports{3});
  CHECK(lanes.ports_of(2) == Ports{1});
  lanes.tell(IBV_EVENT_PORT_ACTIVE, 2);
  CHECK(lanes.ports_of(4) == Ports{2});
}

TEST_CASE("rails: a failure names the port that the lane goes over", "[transport][verbs]") {
  for (const std::uint16_t lane : {1, 2}) {
    Lanes lanes;
    lanes.open(0, lane);
    lanes.exchange(0);
    rdma::plug(false);
    push(*lanes.sender, 1, pattern(1, 100));
    rdma::plug(true, true);
    REQUIRE(eventually(*lanes.pair, [&] {
      lanes.sender->progress();
      return lanes.sender->failure() != nullptr;
    }));
    CHECK_THAT(lanes.sender->failure()->message,
               Catch::Contains("fake0 port " + std::to_string(1 + lane)) &&
                   Catch::Contains("no answer after all retries"));
  }
}

TEST_CASE("rails: a rank with one port has all lanes on the other's port that its route is by",
          "[transport][verbs]") {
  Pair::Setting setting;
  setting.rails = {1, kPorts};
  Lanes lanes(setting);
  for (const std::uint16_t lane : {0, 1, 2}) CHECK(lanes.ports_of(lane) == Ports{1});
}
