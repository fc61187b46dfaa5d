// SPDX-License-Identifier: Apache-2.0

/// The cost of large numbers of ranks, counted in simulated steps instead of wall time.

#include "sim/presets.hpp"
#include "simulated.hpp"
#include "support/effort.hpp"

namespace ccoll::sim {
namespace {

using namespace test;

constexpr Rank kMany = 24576;

Network network_of(std::string_view name) {
  const auto network = parse_network(*network_text(name));
  REQUIRE(network);
  return *network;
}

/// An all_reduce of float32, chosen as by the library.
Result<Simulated> all_reduce(const Network& network, Rank size, std::uint64_t bytes,
                             Algorithm algorithm, const SimulateOptions& options = {}) {
  const Problem problem = placed_on(network, problem_of(Kind::all_reduce, size, bytes / 4));
  const auto choice = choose_on(network, problem, 4, algorithm);
  if (!choice) return tl::unexpected(choice.error());
  return simulate(network, problem, 4, *choice, options);
}

TEST_CASE("a ring of 24,576 ranks carries out the steps of one node", "[sim][unit]") {
  for (const std::uint64_t bytes : {8ULL, 1ULL << 30}) {
    const auto result =
        all_reduce(network_of("nodes-of-8:nvlink+ib200"), kMany, bytes, Algorithm::ring);
    INFO((result ? std::string() : result.error().message));
    REQUIRE(result);
    CHECK(result->kept == 8);
    CHECK(result->outcome.steps == 8 * 2 * kMany - 8);
    // Blocks of one size: some are rounded up by an element.
    CHECK(result->count % kMany == 0);
    CHECK(result->count - bytes / 4 < kMany);
  }
}

TEST_CASE("a tree of 24,576 ranks takes each step once, but for a long buffer some more",
          "[sim][unit]") {
  const Network network = network_of("nodes-of-8:nvlink+ib200");
  for (const Algorithm algorithm : {Algorithm::tree, Algorithm::double_tree}) {
    const std::uint64_t once = 2ULL * kMany * (algorithm == Algorithm::double_tree ? 2 : 1);
    const auto brief = all_reduce(network, kMany, 8, algorithm);
    REQUIRE(brief);
    CHECK(brief->outcome.steps == once);
    // A long buffer takes no more steps than allowed, apart from those of a few windows.
    const auto lengthy = all_reduce(network, 4096, 1 << 30, algorithm, {.max_steps = 400'000});
    REQUIRE(lengthy);
    CHECK(lengthy->windows_run > 0);
    CHECK(lengthy->outcome.steps < 500'000);
  }
}

TEST_CASE("a line through shorter calls tells how long a long one takes", "[sim][property]") {
  const Network network = network_of("nodes-of-8:nvlink+ib200");
  for (const Algorithm algorithm : {Algorithm::tree, Algorithm::double_tree}) {
    const std::vector<Rank> few{64, 200}, usual{64, 200, 400}, many{64, 200, 400, 512};
    for (const Rank size : testing::by_effort(few, usual, many)) {
      const auto exact = all_reduce(network, size, 1 << 30, algorithm);
      const auto line = all_reduce(network, size, 1 << 30, algorithm, {.max_steps = 300'000});
      REQUIRE(exact);
      REQUIRE(line);
      CAPTURE(to_string(algorithm), size);
      CHECK(exact->windows_run == 0);
      CHECK((line->windows_run > 0) == (size > 64));
      CHECK(static_cast<double>(line->outcome.ready) ==
            Approx(static_cast<double>(exact->outcome.ready)).epsilon(0.05));
    }
  }
}

TEST_CASE("what the library chooses for a long ring keeps the wires busy, at any latency",
          "[sim][property]") {
  for (const std::string_view latency : {"0.2", "1", "3", "5", "10"}) {
    const auto network = parse_network(fmt::format(
        "inside_latency_us = {}\ninside_gb_per_s = 10\nreduce_gb_per_s = 20\n", latency));
    REQUIRE(network);
    const auto result = all_reduce(*network, 4, 1 << 30, Algorithm::ring);
    REQUIRE(result);
    CAPTURE(latency, result->choice.lanes);
    // 1.5 GiB pass each rank's wire.
    CHECK(static_cast<double>(result->outcome.ready) / 1e9 < 1.1 * 161.1);
  }
}

TEST_CASE("of few windows with many steps each, no line goes beyond what there is", "[sim][unit]") {
  // 9 ranks on nodes of 8 have no symmetry. Windows do not repeat within the first 8.
  const Network network = network_of("nodes-of-8:nvlink+ib200");
  for (const std::uint64_t windows : {9U, 12U, 16U, 17U, 40U}) {
    const Problem problem =
        placed_on(network, problem_of(Kind::all_reduce, 9, windows * 9 * (128 << 10)));
    const Choice choice{Algorithm::ring, 1, 128 << 10};
    const auto exact = simulate(network, problem, 4, choice);
    const auto few_steps = simulate(network, problem, 4, choice, {.max_steps = 8 * 16 * 9});
    REQUIRE(exact);
    REQUIRE(few_steps);
    CAPTURE(windows, few_steps->windows_run);
    CHECK(exact->windows == windows);
    CHECK(static_cast<double>(few_steps->outcome.ready) ==
          Approx(static_cast<double>(exact->outcome.ready)).epsilon(0.05));
  }
}

TEST_CASE("what would take more than virtual time holds is refused, and says so", "[sim][unit]") {
  const auto slow = parse_network(
      "inside_latency_us = 1\ninside_gb_per_s = 1e-9\nreduce_gb_per_s = 1\nslot_kib = 1048576\n");
  REQUIRE(slow);
  const auto result = all_reduce(*slow, 4, 1 << 30, Algorithm::ring);
  REQUIRE(!result);
  CHECK(result.error().kind == ErrorKind::unsupported);
  CHECK(result.error().message.find("days of virtual time; the limit is 104 days") !=
        std::string::npos);
  CHECK(all_reduce(*slow, 4, 1 << 10, Algorithm::ring));
}

TEST_CASE("NICs that no rank uses take no memory, and change nothing", "[sim][unit]") {
  const auto with_nics = [](Rank nics) {
    return parse_network(fmt::format(
        "ranks_per_node = 2\nnics_per_node = {}\ninside_latency_us = 1\ninside_gb_per_s = 10\n"
        "across_latency_us = 2\nacross_gb_per_s = 5\nreduce_gb_per_s = 20\n",
        nics));
  };
  const auto enough = with_nics(2), far_more = with_nics(1 << 24);
  REQUIRE(enough);
  REQUIRE(far_more);
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::double_tree}) {
    const auto expected = all_reduce(*enough, 256, 1 << 20, algorithm);
    const auto result = all_reduce(*far_more, 256, 1 << 20, algorithm);
    REQUIRE(expected);
    REQUIRE(result);
    CHECK(result->outcome.ready == expected->outcome.ready);
  }
}

TEST_CASE("what would take more than 10^10 messages is refused, and says so", "[sim][unit]") {
  const auto result = all_reduce(network_of("ndr"), kMany, 1 << 30, Algorithm::one_shot);
  REQUIRE(!result);
  CHECK(result.error().kind == ErrorKind::unsupported);
  CHECK(result.error().message.find("messages are more than the limit of 1e+10") !=
        std::string::npos);
}

TEST_CASE("what would take too many steps is refused before it begins", "[sim][unit]") {
  const Network network = network_of("nodes-of-8:nvlink+ib200");
  const auto result = all_reduce(network, 1'000'000, 64 << 20, Algorithm::recursive_doubling);
  REQUIRE(!result);
  CHECK(result.error().kind == ErrorKind::unsupported);
  CHECK(result.error().message.find("steps are more than the limit of 2e+08") != std::string::npos);
  // 64 ranks without symmetry take 6 messages each.
  const auto limited = [&](std::uint64_t steps) {
    return all_reduce(network, 64, 8, Algorithm::recursive_doubling, {.max_steps_in_all = steps});
  };
  CHECK(limited(64 * 6));
  CHECK_FALSE(limited(64 * 6 - 1));
}

TEST_CASE("what would take too much memory is refused, and says so", "[sim][unit]") {
  const auto result =
      all_reduce(network_of("ndr"), 1024, 1 << 20, Algorithm::double_tree, {.max_bytes = 1 << 16});
  REQUIRE(!result);
  CHECK(result.error().kind == ErrorKind::unsupported);
  CHECK(result.error().message.find("needs more than") == 0);
}

TEST_CASE("blocks taken to be equal hardly change a ring's time, and never for the better",
          "[sim][property]") {
  const Network network = network_of("nodes-of-8:nvlink+ib200");
  for (const Rank size : {16U, 24U, 64U}) {
    for (const std::uint64_t bytes : {1000ULL, 100'000ULL, 10'000'020ULL}) {
      const auto exact = all_reduce(network, size, bytes, Algorithm::ring);
      const auto rounded =
          all_reduce(network, size, bytes, Algorithm::ring, {.max_messages_unlike = 0});
      REQUIRE(exact);
      REQUIRE(rounded);
      CAPTURE(size, bytes);
      CHECK(exact->count == bytes / 4);
      CHECK(exact->kept == size);
      CHECK(rounded->kept == 8);
      CHECK(rounded->outcome.ready >= exact->outcome.ready);
      CHECK(static_cast<double>(rounded->outcome.ready) <=
            1.01 * static_cast<double>(exact->outcome.ready));
    }
  }
}

TEST_CASE("an algorithm that does not apply says why", "[sim][unit]") {
  const auto result = all_reduce(network_of("one-node:nvlink"), 8, 8, Algorithm::leaders);
  REQUIRE(!result);
  CHECK(result.error().message.find("all ranks share one host") != std::string::npos);
}

}  // namespace
}  // namespace ccoll::sim
