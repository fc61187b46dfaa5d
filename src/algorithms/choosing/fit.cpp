// SPDX-License-Identifier: Apache-2.0

/// Fits the cost model to measured calls. These calls run the very schedules that are predicted.
/// Costs that the model lacks (a cache, a scheduler) go into the numbers that stand nearest.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "algorithms/choosing/cost.hpp"
#include "core/result.hpp"

namespace ccoll {
namespace {

/// A measured call, with the parts that stay the same while costs are tried.
struct Point {
  const Measured* measured;
  Model model;
  double weight;  ///< how near it comes to its problem's best; slow ones are never chosen

  double predict(const CostTable& costs) const { return model.ns(measured->choice, costs); }
};

bool is_rival(const Measured& a, const Measured& b) {
  return a.problem == b.problem && a.elem_bytes == b.elem_bytes;
}

double best_of_rivals(const Measured& one, std::span<const Measured> measured) {
  double best = one.ns;
  for (const Measured& other : measured)
    if (is_rival(one, other)) best = std::min(best, other.ns);
  return best;
}

std::vector<Point> points_of(std::span<const Measured> measured) {
  std::vector<Point> points;
  for (const Measured& one : measured) {
    const auto* entry = find_algorithm(one.problem.kind, one.choice.algorithm);
    CCOLL_CHECK(entry != nullptr && one.ns > 0, "{} of {} took {} ns",
                to_string(one.choice.algorithm), to_string(one.problem.kind), one.ns);
    points.push_back(
        {&one, Model(*entry, one.problem, one.elem_bytes), best_of_rivals(one, measured) / one.ns});
  }
  return points;
}

double& latency_of(MeasuredCosts& costs) { return costs.links.latency_ns; }
double& step_of(MeasuredCosts& costs) { return costs.links.step_ns; }
double& bandwidth_of(MeasuredCosts& costs) { return costs.links.bandwidth_bytes_per_s; }
double& reduction_of(MeasuredCosts& costs) { return costs.reduce_bytes_per_s; }
constexpr std::array kNumbers = {latency_of, step_of, bandwidth_of, reduction_of};

/// Beyond this factor from its start, a number stands for something else than its name.
constexpr double kFurthest = 30;
/// The cost to move a number by a factor of e, as a part of a point's error. It suffices to leave a
/// number alone if the measurements say nothing about it.
constexpr double kReluctance = 0.02;

/// How far predictions are off, in factors. A noisy machine has some times that are far out, so
/// errors do not count by their square.
double error_of(const std::vector<Point>& points, const CostTable& costs) {
  double sum = 0;
  double weights = 0;
  for (const Point& point : points) {
    sum += point.weight * std::abs(std::log(point.predict(costs) / point.measured->ns));
    weights += point.weight;
  }
  return sum / std::max(1e-9, weights);
}

double regret_of(const std::vector<Point>& points, const CostTable& costs) {
  double sum = 0;
  std::size_t problems = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto rival = [&](const Point& other) {
      return is_rival(*points[i].measured, *other.measured);
    };
    // Count each problem once, at its first point.
    if (std::any_of(points.begin(), points.begin() + static_cast<std::ptrdiff_t>(i), rival))
      continue;
    const Point* chosen = nullptr;
    double predicted = std::numeric_limits<double>::infinity();
    for (const Point& point : points) {
      if (!rival(point)) continue;
      if (const double time = point.predict(costs); chosen == nullptr || time < predicted) {
        predicted = time;
        chosen = &point;
      }
    }
    sum -= std::log(chosen->weight);
    ++problems;
  }
  return problems == 0 ? 1 : std::exp(sum / static_cast<double>(problems));
}

/// Descends from `best`, in steps that become finer, while choosing never costs more than
/// `most_regret`. It moves one number, or two together where the second makes good what the first
/// does to the choices.
template <typename Error, typename Regret>
MeasuredCosts descend(MeasuredCosts best, Error error, Regret regret, double most_regret) {
  double least = error(best) + std::log(regret(best));
  const auto improve = [&](const std::array<double, kNumbers.size()>& factors) {
    MeasuredCosts tried = best;
    for (std::size_t i = 0; i < kNumbers.size(); ++i) kNumbers[i](tried) *= factors[i];
    const double its_error = error(tried);
    if (its_error >= least) return false;
    const double its_regret = regret(tried);
    if (its_regret > most_regret || its_error + std::log(its_regret) >= least) return false;
    best = tried;
    least = its_error + std::log(its_regret);
    return true;
  };
  for (double factor = 4; factor > 1.02; factor = std::sqrt(factor)) {
    for (bool better = true; better;) {
      better = false;
      for (std::size_t i = 0; i < kNumbers.size(); ++i)
        for (std::size_t j = i; j < kNumbers.size(); ++j)
          for (const double one : {factor, 1 / factor})
            for (const double other : {factor, 1 / factor}) {
              std::array<double, kNumbers.size()> factors = {1, 1, 1, 1};
              factors[i] = one;
              factors[j] = other;
              better |= improve(factors);
            }
    }
  }
  return best;
}

}  // namespace

CostTable with(CostTable costs, const MeasuredCosts& measured) {
  costs.links = measured.links;
  costs.inside = measured.links;
  costs.reduce_bytes_per_s = measured.reduce_bytes_per_s;
  return costs;
}

MeasuredCosts fit(const CostTable& costs, std::span<const Measured> measured) {
  const std::vector<Point> points = points_of(measured);
  MeasuredCosts before{costs.links, costs.reduce_bytes_per_s};
  const auto error = [&](MeasuredCosts tried) {
    double moved = 0;
    for (const auto number : kNumbers) {
      const double far = std::abs(std::log(number(tried) / number(before)));
      if (far > std::log(kFurthest)) return std::numeric_limits<double>::infinity();
      moved += far;
    }
    return error_of(points, with(costs, tried)) + kReluctance * moved;
  };
  const auto regret = [&](const MeasuredCosts& tried) {
    return regret_of(points, with(costs, tried));
  };
  const double regret_before = regret(before);
  const auto free = descend(before, error, regret, std::numeric_limits<double>::infinity());
  return regret(free) <= regret_before ? free : descend(before, error, regret, regret_before);
}

Accuracy assess(const CostTable& costs, std::span<const Measured> measured) {
  const std::vector<Point> points = points_of(measured);
  return {.off = std::exp(error_of(points, costs)), .picks = regret_of(points, costs)};
}

}  // namespace ccoll
