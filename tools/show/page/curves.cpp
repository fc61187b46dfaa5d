// SPDX-License-Identifier: Apache-2.0
#include "show/page/curves.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>

#include "bench/command/sizes.hpp"
#include "bench/report/chart.hpp"
#include "core/text.hpp"
#include "show/model/study.hpp"
#include "show/page/study_page.hpp"

namespace ccoll::show {

namespace {

using nlohmann::ordered_json;

/// Used in addition to the requested number of ranks; more would take seconds.
constexpr std::array<Rank, 3> kRanks = {4, 8, 16};
constexpr std::array<double, 3> kLatencies = {0.2, 1, 5};
constexpr std::array<double, 3> kBandwidths = {0.25, 1, 4};
constexpr std::uint64_t kLeastBytes = 64;
constexpr std::uint64_t kLargestBytes = std::uint64_t{1} << 30;

std::vector<Rank> ranks_of(const CurvesAsked& asked) {
  std::vector<Rank> all(kRanks.begin(), kRanks.end());
  if (std::ranges::find(all, asked.ranks) == all.end()) all.push_back(asked.ranks);
  std::erase_if(all, [&](Rank ranks) { return asked.root >= ranks; });
  std::ranges::sort(all);
  return all;
}

/// Each rank has one link of these costs for all its sends, and one for all its receives.
sim::Network network_of(const LinkCosts& links, double latency, double bandwidth) {
  sim::Network network;
  network.inside = links;
  network.inside.latency_ns *= latency;
  network.inside.bandwidth_bytes_per_s *= bandwidth;
  network.across = network.inside;
  network.port_bytes_per_s = network.nic_bytes_per_s = network.inside.bandwidth_bytes_per_s;
  return network;
}

Question question_of(const CurvesAsked& asked) {
  Question question;
  question.operation = asked.operation;
  question.type = asked.type;
  question.root = asked.root;
  question.algorithms = asked.algorithms;
  question.options.max_steps = kMostCurveSteps;
  for (std::uint64_t bytes = kLeastBytes; bytes <= kLargestBytes; bytes *= 4)
    question.bytes.push_back(bytes);
  return question;
}

/// "64K bytes: ring 40.2 us (x1.5), two_shot 26.8 us (the fastest)".
std::string size_sentence(const Question& question, const Sheet& sheet, std::size_t size) {
  std::vector<std::string> times;
  for (std::size_t i = 0; i < sheet.cells.size(); ++i) {
    const Answer& cell = sheet.cells[i][size];
    const auto name = to_string(question.algorithms[i]);
    if (!cell.simulated) {
      times.push_back(fmt::format("{} cannot", name));
    } else if (sheet.fastest[size] == i) {
      times.push_back(fmt::format("{} {} (the fastest)", name, time_text(cell.us())));
    } else {
      const double best = sheet.cells[*sheet.fastest[size]][size].us();
      times.push_back(fmt::format("{} {} (x{:.3g})", name, time_text(cell.us()), cell.us() / best));
    }
  }
  return fmt::format("{} bytes: {}.", bench::short_size(question.bytes[size]), joined(times));
}

ordered_json state_json(const Question& question, Rank ranks) {
  const Sheet sheet = simulate_sheet(question, ranks);
  ordered_json sizes = ordered_json::array();
  for (std::size_t size = 0; size < question.bytes.size(); ++size)
    sizes.push_back(size_sentence(question, sheet, size));
  ordered_json crossings = ordered_json::array();
  for (const Crossing& crossing : crossings_of(question, sheet))
    crossings.push_back(crossing_sentence(crossing) + ".");
  return {{"figure", study_figure(question, sheet)}, {"sizes", sizes}, {"crossings", crossings}};
}

ordered_json slider_json(const char* name, const char* unit, std::vector<std::string> values,
                         std::size_t at) {
  return {{"name", name}, {"unit", unit}, {"values", std::move(values)}, {"at", at}};
}

template <typename Factors>
std::vector<std::string> scaled(double value, const Factors& factors) {
  std::vector<std::string> texts;
  for (const double factor : factors) texts.push_back(fmt::format("{:.3g}", value * factor));
  return texts;
}

ordered_json sliders_json(const CurvesAsked& asked, const Question& question) {
  const std::vector<Rank> ranks = ranks_of(asked);
  std::vector<std::string> rank_texts;
  for (const Rank each : ranks) rank_texts.push_back(fmt::format("{}", each));
  std::vector<std::string> sizes;
  std::size_t nearest = 0;
  for (const std::uint64_t bytes : question.bytes) {
    if (bytes <= asked.bytes) nearest = sizes.size();
    sizes.push_back(bench::short_size(bytes));
  }
  const auto at = std::ranges::find(ranks, asked.ranks) - ranks.begin();
  return {slider_json("ranks", "", rank_texts, static_cast<std::size_t>(at)),
          slider_json("latency", "us", scaled(asked.links.latency_ns / 1e3, kLatencies), 1),
          slider_json("bandwidth", "GB/s",
                      scaled(asked.links.bandwidth_bytes_per_s / 1e9, kBandwidths), 1),
          slider_json("size", "bytes", sizes, nearest)};
}

}  // namespace

ordered_json curves_json(const CurvesAsked& asked) {
  Question question = question_of(asked);
  std::vector<std::string> names;
  for (const Algorithm algorithm : asked.algorithms) names.emplace_back(to_string(algorithm));
  ordered_json states = ordered_json::array();
  for (const Rank ranks : ranks_of(asked)) {
    for (const double latency : kLatencies) {
      for (const double bandwidth : kBandwidths) {
        question.network = network_of(asked.links, latency, bandwidth);
        states.push_back(state_json(question, ranks));
      }
    }
  }
  return {{"sliders", sliders_json(asked, question)},
          {"legend", bench::chart_legend(names)},
          {"states", states}};
}

}  // namespace ccoll::show
