// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "algorithms/choosing/cost.hpp"
#include "algorithms/sweep.hpp"
#include "support/effort.hpp"

namespace ccoll {
namespace {

/// A number between 1 / most and most.
template <typename Random>
double factor(double most, Random& random) {
  return std::pow(most, std::uniform_real_distribution(-1.0, 1.0)(random));
}

/// Every algorithm of every kind at some sizes, with slices and lanes chosen by `costs`; no times.
std::vector<Measured> calls(Rank size, const CostTable& costs) {
  std::vector<Measured> all;
  for (const CatalogueEntry& entry : catalogue()) {
    if (entry.by_host) continue;
    for (const std::uint64_t count : {2ULL, 512ULL, 64ULL << 10, 4ULL << 20}) {
      Measured one;
      one.problem.kind = entry.kind;
      one.problem.size = size;
      one.problem.count = entry.kind == Kind::barrier ? 1 : count;
      one.elem_bytes = 4;
      one.choice =
          choose(one.problem, 4, costs, {.algorithm = entry.algorithm, .max_lanes = {}}).choice;
      all.push_back(one);
    }
  }
  return all;
}

double predicted(const Measured& one, const CostTable& costs) {
  const CatalogueEntry* entry = find_algorithm(one.problem.kind, one.choice.algorithm);
  return Model(*entry, one.problem, one.elem_bytes).ns(one.choice, costs);
}

TEST_CASE("fitting: finds the costs of a machine that the model describes, through noise",
          "[algorithms][property]") {
  const auto seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int draw = 0; draw < testing::by_effort(2, 6, 50); ++draw) {
    const CostTable guess;
    CostTable truth = guess;
    truth.links.latency_ns *= factor(8, random);
    truth.links.step_ns *= factor(8, random);
    truth.links.bandwidth_bytes_per_s *= factor(8, random);
    truth.reduce_bytes_per_s *= factor(8, random);
    std::vector<Measured> measured = calls(2 + random() % 7, guess);
    for (Measured& one : measured) one.ns = predicted(one, truth) * factor(1.1, random);
    const CostTable fitted = with(guess, fit(guess, measured));
    const Accuracy before = assess(guess, measured);
    const Accuracy after = assess(fitted, measured);
    CAPTURE(seed, draw, before.off, before.picks);
    CHECK(after.off < 1.25);
    CHECK(after.picks < 1.1);
  }
}

TEST_CASE("fitting: whatever was measured, the choices are no worse than before",
          "[algorithms][property]") {
  const auto seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int draw = 0; draw < testing::by_effort(2, 6, 50); ++draw) {
    const CostTable guess;
    std::vector<Measured> measured = calls(4, guess);
    for (Measured& one : measured) one.ns = 1e4 * factor(100, random);
    const MeasuredCosts fitted = fit(guess, measured);
    CAPTURE(seed, draw);
    CHECK(assess(with(guess, fitted), measured).picks <= assess(guess, measured).picks);
    CHECK(fitted.links.latency_ns <= 31 * guess.links.latency_ns);
    CHECK(fitted.links.latency_ns >= guess.links.latency_ns / 31);
  }
  const CostTable guess;
  CHECK(fit(guess, {}) == MeasuredCosts{guess.links, guess.reduce_bytes_per_s});
  CHECK(assess(guess, {}).picks == 1);
}

TEST_CASE("fitting: picks is what choosing costs", "[algorithms]") {
  std::vector<Measured> measured = calls(4, {});
  std::erase_if(measured, [](const Measured& one) {
    return one.problem.kind != Kind::barrier && one.problem.kind != Kind::all_to_all;
  });
  // Times as predicted, except all_to_all of 8 bytes, whose choice takes 4 times another's time.
  const Algorithm chosen = choose(measured.front().problem, 4, {}).choice.algorithm;
  for (Measured& one : measured) one.ns = predicted(one, {});
  CHECK(assess({}, measured).picks == Approx(1));
  CHECK(assess({}, measured).off == Approx(1));
  double best = HUGE_VAL;
  for (const Measured& one : measured)
    if (one.problem == measured.front().problem && one.choice.algorithm != chosen)
      best = std::min(best, one.ns);
  for (Measured& one : measured)
    if (one.problem == measured.front().problem && one.choice.algorithm == chosen)
      one.ns = 4 * best;
  // One of five problems: four sizes of all_to_all, and the barrier.
  CHECK(assess({}, measured).picks == Approx(std::pow(4, 1.0 / 5)));
}

}  // namespace
}  // namespace ccoll
