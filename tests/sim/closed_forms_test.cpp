// SPDX-License-Identifier: Apache-2.0

/// Times that can be computed by hand: α is a link's latency, β the time per byte.

#include <bit>

#include "simulated.hpp"

namespace ccoll::sim {
namespace {

using namespace test;

constexpr double kAlpha = 1e6;  // picoseconds
constexpr double kBeta = 1e3;

double ready(const Network& network, const Problem& problem, const Choice& choice) {
  return static_cast<double>(simulated(network, problem, choice).outcome.ready);
}

/// A step that costs nothing takes a picosecond: see run.hpp.
constexpr double kSteps = 300;

TEST_CASE("a ring all_reduce takes 2(n-1)(α + βS/n)", "[sim][property]") {
  for (Rank n = 2; n <= 40; ++n) {
    for (const std::uint64_t block : {1U, 100U, 5000U}) {
      const double expected = 2 * (n - 1) * (kAlpha + kBeta * static_cast<double>(block));
      const double time = ready(plain_network(), problem_of(Kind::all_reduce, n, n * block),
                                {Algorithm::ring, 1, block});
      CAPTURE(n, block);
      CHECK(time == Approx(expected).margin(kSteps));
    }
  }
}

TEST_CASE("a ring all_gather and a ring reduce_scatter take (n-1)(α + βS)", "[sim][property]") {
  for (const Kind kind : {Kind::all_gather, Kind::reduce_scatter}) {
    for (Rank n = 2; n <= 40; ++n) {
      const double expected = (n - 1) * (kAlpha + kBeta * 777);
      CAPTURE(to_string(kind), n);
      CHECK(ready(plain_network(), problem_of(kind, n, 777), {Algorithm::ring, 1, 777}) ==
            Approx(expected).margin(kSteps));
    }
  }
}

TEST_CASE("a binomial broadcast takes ⌊log2 n⌋ hops of α + βS", "[sim][property]") {
  for (Rank n = 2; n <= 70; ++n) {
    const auto rounds = static_cast<double>(std::bit_width(n) - 1);
    CAPTURE(n);
    // A rank's messages do not wait for each other's latency.
    CHECK(
        ready(plain_network(), problem_of(Kind::broadcast, n, 10), {Algorithm::binomial, 1, 10}) ==
        Approx(rounds * (kAlpha + kBeta * 10)).margin(kSteps));
  }
}

TEST_CASE("recursive doubling takes log2 n rounds of α + βS at powers of two", "[sim][property]") {
  for (Rank n = 2; n <= 128; n *= 2) {
    const auto rounds = static_cast<double>(std::bit_width(n) - 1);
    CAPTURE(n);
    CHECK(ready(plain_network(), problem_of(Kind::all_reduce, n, 500),
                {Algorithm::recursive_doubling, 1, 500}) ==
          Approx(rounds * (kAlpha + kBeta * 500)).margin(kSteps));
  }
}

TEST_CASE("a tree all_reduce takes 2⌈log2 n⌉ hops; further windows add what one rank sends",
          "[sim][property]") {
  for (Rank n = 2; n <= 70; ++n) {
    const auto hops = 2.0 * std::bit_width(n - 1);
    CAPTURE(n);
    CHECK(ready(plain_network(), problem_of(Kind::all_reduce, n, 64), {Algorithm::tree, 1, 64}) ==
          Approx(hops * (kAlpha + kBeta * 64)).margin(kSteps));
    // The next window is one slice behind on every link, which has slots for many.
    Network network = plain_network();
    network.slots_per_link = 64;
    CHECK(ready(network, problem_of(Kind::all_reduce, n, 640), {Algorithm::tree, 1, 64}) ==
          Approx(hops * (kAlpha + kBeta * 64) + 9 * kBeta * 64).margin(10 * kSteps));
  }
}

TEST_CASE("pairwise all_to_all through one port takes α + (n-1)βS", "[sim][property]") {
  Network network = plain_network();
  network.port_bytes_per_s = 1e9;
  for (Rank n = 2; n <= 40; ++n) {
    CAPTURE(n);
    CHECK(ready(network, problem_of(Kind::all_to_all, n, 300), {Algorithm::pairwise, 1, 300}) ==
          Approx(kAlpha + (n - 1) * kBeta * 300).margin(kSteps));
  }
}

TEST_CASE("ranks of a node share its NICs: what crosses takes turns", "[sim][property]") {
  // All ranks exchange blocks; 4 × 4 leave each node, over 1, 2 or 4 NICs.
  double fewer_nics = 1e18;
  for (const Rank nics : {1U, 2U, 4U}) {
    Network network = plain_network();
    network.ranks_per_node = 4;
    network.nics_per_node = nics;
    network.nic_bytes_per_s = 1e9;
    const double through_one = 16.0 / nics * kBeta * 100'000;
    const double time =
        ready(network, problem_of(Kind::all_to_all, 8, 100'000), {Algorithm::pairwise, 1, 100'000});
    CAPTURE(nics);
    CHECK(time >= kAlpha + through_one);
    if (nics == 1) CHECK(time <= 1.01 * (kAlpha + through_one));
    CHECK(time < fewer_nics);
    fewer_nics = time;
  }
}

TEST_CASE("reductions take S over the rate for each source beyond the first", "[sim][property]") {
  Network network = plain_network();
  network.reduce_bytes_per_s = 2e9;
  for (Rank n = 2; n <= 20; ++n) {
    const double sent = kAlpha + kBeta * 1000;
    CAPTURE(n);
    CHECK(ready(network, problem_of(Kind::all_reduce, n, 1000), {Algorithm::one_shot, 1, 1000}) ==
          Approx(sent + (n - 1) * 1000 / 2e9 * 1e12).margin(kSteps));
  }
}

TEST_CASE("a link with s slots passes s slices in the time of a message and its way back",
          "[sim][property]") {
  Network network = plain_network();
  network.slots_per_link = 4;
  // Only latency matters: after 4 slices the sender waits until the first is popped.
  const Simulated result =
      simulated(network, problem_of(Kind::broadcast, 2, 400), {Algorithm::linear, 1, 1});
  const double rounds = 400.0 / 4;
  CHECK(static_cast<double>(result.outcome.ready) ==
        Approx(rounds * 2 * kAlpha - kAlpha).epsilon(0.01));
}

TEST_CASE("what is lent in place is copied by who stores it, and by nobody else", "[sim][unit]") {
  Network network = plain_network();
  network.moved_by_ranks = true;
  const Problem broadcast = problem_of(Kind::broadcast, 5, 1000);
  const Problem reduce = problem_of(Kind::reduce, 5, 1000);
  const Choice linear{Algorithm::linear, 1, 1000};
  const double copy = kBeta * 1000;
  // Either the root copies for each of four, or each copies for itself.
  CHECK(ready(network, broadcast, linear) == Approx(kAlpha + 4 * copy).margin(kSteps));
  CHECK(ready(network, reduce, linear) == Approx(kAlpha + copy).margin(kSteps));
  network.lent_in_place = true;
  CHECK(ready(network, broadcast, linear) == Approx(kAlpha + copy).margin(kSteps));
  CHECK(ready(network, reduce, linear) == Approx(kAlpha).margin(kSteps));
}

TEST_CASE("ranks that share cores take turns", "[sim][property]") {
  Network network = plain_network();
  network.moved_by_ranks = true;
  network.inside.latency_ns = 0;
  for (const Rank cores : {1U, 2U, 4U}) {
    network.cores_per_node = cores;
    // Each of 8 ranks copies 7 blocks.
    const double work = 8.0 * 7 * kBeta * 1000;
    const double time =
        ready(network, problem_of(Kind::all_to_all, 8, 1000), {Algorithm::pairwise, 1, 1000});
    CAPTURE(cores);
    CHECK(time >= work / cores);
    CHECK(time <= 1.1 * work / cores + 100 * kSteps);
  }
}

}  // namespace
}  // namespace ccoll::sim
