// SPDX-License-Identifier: Apache-2.0
#include "sim/network.hpp"

#include <catch2/catch.hpp>
#include <sstream>

#include "sim/presets.hpp"

namespace ccoll::sim {
namespace {

constexpr std::string_view kGood =
    "# mine\n"
    "ranks_per_node = 8\n"
    "inside_latency_us = 0.6  # a book\n"
    "inside_gb_per_s = 450\n"
    "\n"
    "across_latency_us = 2.7\n"
    "across_gb_per_s = 25     # what it says on the box\n"
    "reduce_gb_per_s = 1000\n";

std::string wrong(std::string text) {
  const auto parsed = parse_network(text);
  REQUIRE(!parsed);
  CHECK(parsed.error().kind == ErrorKind::invalid_argument);
  return parsed.error().message;
}

std::vector<std::string> names() {
  std::vector<std::string> names{std::string(kDefaultNetwork)};
  for (const NetworkPreset& preset : network_presets()) names.emplace_back(preset.name);
  for (const Preset& inside : inside_presets()) {
    names.push_back(fmt::format("one-node:{}", inside.name));
    for (const Preset& across : across_presets())
      names.push_back(fmt::format("nodes-of-4:{}+2x{}", inside.name, across.name));
  }
  return names;
}

TEST_CASE("a network's text is read, with the source of each number", "[sim][unit]") {
  const auto network = parse_network(kGood);
  REQUIRE(network);
  CHECK(network->ranks_per_node == 8);
  CHECK(network->inside.latency_ns == Approx(600));
  CHECK(network->across.bandwidth_bytes_per_s == Approx(25e9));
  CHECK(network->nic_bytes_per_s == Approx(25e9));
  CHECK(network->port_bytes_per_s == Approx(450e9));
  CHECK(network->sources.at("across_gb_per_s") == "what it says on the box");
  CHECK(network->sources.at("across_latency_us") == "no source given");
  CHECK(network->sources.at("nic_gb_per_s").starts_with("not given"));
  CHECK(network->nodes(8) == 1);
  CHECK(network->nodes(9) == 2);
}

TEST_CASE("slots are those of what crosses between nodes, where that says so", "[sim][unit]") {
  const auto slot_bytes = [](std::string_view name) {
    return parse_network(*network_text(name))->slot_bytes;
  };
  CHECK(slot_bytes("laptop") == 32 << 10);
  CHECK(slot_bytes("eth100") == 128 << 10);
  CHECK(slot_bytes("nodes-of-8:shm+eth100") == 128 << 10);
  CHECK(slot_bytes("nodes-of-8:nvlink+ib200") == 512 << 10);
}

TEST_CASE("what is wrong in a network's text is said with its line", "[sim][unit]") {
  const std::string good(kGood);
  CHECK(wrong(good + "latency = 3\n").starts_with("line 9: no number 'latency'"));
  CHECK(wrong(good + "nic_gb_per_sec = 3\n").find("did you mean nic_gb_per_s?") !=
        std::string::npos);
  CHECK(wrong(good + "nic_gb_per_s 3\n") ==
        "line 9: expected 'name = number', not 'nic_gb_per_s 3'");
  CHECK(wrong(good + "nic_gb_per_s = fast\n") ==
        "line 9: nic_gb_per_s is a number from 1e-09 to 1e+06, not 'fast'");
  CHECK(wrong(good + "nic_gb_per_s = 3 GB\n").starts_with("line 9: nic_gb_per_s is a number"));
  CHECK(wrong(good + "nic_gb_per_s = 0\n").starts_with("line 9: nic_gb_per_s is a number"));
  CHECK(wrong(good + "nic_gb_per_s = nan\n").starts_with("line 9: nic_gb_per_s is a number"));
  CHECK(wrong(good + "nics_per_node = 1.5\n") ==
        "line 9: nics_per_node is a whole number from 1 to 1.67772e+07, not '1.5'");
  CHECK(wrong(good + "ranks_per_node = 4\n") == "line 9: ranks_per_node was given before");
  CHECK(wrong("inside_latency_us = 1\n") == "inside_gb_per_s is missing");
  CHECK(wrong("ranks_per_node = 2\ninside_latency_us = 1\ninside_gb_per_s = 1\nreduce_gb_per_s = 1")
            .starts_with("across_latency_us is missing, which several nodes"));
  CHECK(wrong("") == "inside_latency_us is missing");
}

TEST_CASE("every preset is read, names the source of each number, and is printed as it was read",
          "[sim][property]") {
  for (const std::string& name : names()) {
    INFO(name);
    const auto text = network_text(name);
    REQUIRE(text);
    const auto network = parse_network(*text);
    REQUIRE(network);
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      CHECK(line.size() <= 100);
      const auto source = line.find("# ");
      REQUIRE(source != std::string::npos);
      CHECK(line.size() > source + 6);
    }
    const auto again = parse_network(to_text(*network));
    REQUIRE(again);
    CHECK(*again == *network);
  }
}

TEST_CASE("a network that nobody knows is refused, and what there is is named", "[sim][unit]") {
  const auto refusal = [](std::string_view name) {
    const auto text = network_text(name);
    REQUIRE(!text);
    return text.error().message;
  };
  CHECK(refusal("sumit").find("did you mean summit?") != std::string::npos);
  CHECK(refusal("sumit").find("nodes-of-8:INSIDE+ACROSS") != std::string::npos);
  CHECK(refusal("nodes-of-8:nvlnk+ib200").find("did you mean nvlink?") != std::string::npos);
  CHECK(refusal("nodes-of-8:nvlink+ib300").find("no link between nodes 'ib300'") == 0);
  CHECK(refusal("nodes-of-8:nvlink").find("add what joins nodes") != std::string::npos);
  CHECK(refusal("one-node:nvlink+ib200").find("one node has no links") != std::string::npos);
  CHECK(refusal("nodes-of-0:nvlink+ib200").find("no network") == 0);
  CHECK(refusal("boxes-of-8:nvlink+ib200").find("no network") == 0);
  CHECK(refusal("").find("no network") == 0);
}

TEST_CASE("the cost model is told what the network has", "[sim][unit]") {
  const auto network = parse_network(*network_text("nodes-of-8:nvlink+4xib200"));
  REQUIRE(network);
  CHECK(network->nics_per_node == 4);
  CHECK(cost_table(*network, 8).links == network->inside);
  CHECK(cost_table(*network, 9).links == network->across);
  CHECK(cost_table(*network, 9).inside == network->inside);
  CHECK(cost_table(*network, 8).wires_bytes_per_s == network->port_bytes_per_s);
  CHECK(cost_table(*network, 9).wires_bytes_per_s == network->nic_bytes_per_s);
  CHECK(cost_table(*network, 9).wires_inside_bytes_per_s == network->port_bytes_per_s);
  CHECK(cost_table(*network, 9).host_bytes_per_s == 4 * network->nic_bytes_per_s);
  Problem problem;
  problem.size = 8;
  CHECK(placed_on(*network, problem).host_of.empty());
  problem.size = 9;
  CHECK(placed_on(*network, problem).host_of ==
        std::vector<std::uint32_t>{0, 0, 0, 0, 0, 0, 0, 0, 1});
}

}  // namespace
}  // namespace ccoll::sim
