// SPDX-License-Identifier: Apache-2.0
#include "sim/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/text.hpp"

namespace ccoll::sim {
namespace {

constexpr double kMicro = 1e3;  // nanoseconds
constexpr double kGiga = 1e9;
constexpr double kKibi = 1024;
constexpr double kMostRanks = 1 << 24;

/// One line of the text: the name of a number, its limits, and its place in a Network.
struct Field {
  std::string_view name;
  double least;
  double most;
  bool whole;
  void (*set)(Network& network, double value);
  double (*get)(const Network& network);
};

// Times are at most a minute, and rates are from a byte to a petabyte per second. If all together
// could exceed 64 bits of picoseconds, make_system() refuses.
constexpr double kMostMicro = 6e7;
constexpr double kLeastGiga = 1e-9;
constexpr double kMostGiga = 1e6;

constexpr std::array kFields = std::to_array<Field>({
    {"ranks_per_node", 0, kMostRanks, true,
     [](Network& net, double v) { net.ranks_per_node = static_cast<Rank>(v); },
     [](const Network& net) -> double { return net.ranks_per_node; }},
    {"nics_per_node", 1, kMostRanks, true,
     [](Network& net, double v) { net.nics_per_node = static_cast<Rank>(v); },
     [](const Network& net) -> double { return net.nics_per_node; }},
    {"cores_per_node", 0, kMostRanks, true,
     [](Network& net, double v) { net.cores_per_node = static_cast<Rank>(v); },
     [](const Network& net) -> double { return net.cores_per_node; }},
    {"lanes_in_turn", 0, 1, true, [](Network& net, double v) { net.lanes_in_turn = v == 1; },
     [](const Network& net) -> double { return net.lanes_in_turn ? 1 : 0; }},
    {"inside_latency_us", 0, kMostMicro, false,
     [](Network& net, double v) { net.inside.latency_ns = v * kMicro; },
     [](const Network& net) { return net.inside.latency_ns / kMicro; }},
    {"inside_step_us", 0, kMostMicro, false,
     [](Network& net, double v) { net.inside.step_ns = v * kMicro; },
     [](const Network& net) { return net.inside.step_ns / kMicro; }},
    {"inside_gb_per_s", kLeastGiga, kMostGiga, false,
     [](Network& net, double v) { net.inside.bandwidth_bytes_per_s = v * kGiga; },
     [](const Network& net) { return net.inside.bandwidth_bytes_per_s / kGiga; }},
    {"port_gb_per_s", kLeastGiga, kMostGiga, false,
     [](Network& net, double v) { net.port_bytes_per_s = v * kGiga; },
     [](const Network& net) { return net.port_bytes_per_s / kGiga; }},
    {"moved_by_ranks", 0, 1, true, [](Network& net, double v) { net.moved_by_ranks = v == 1; },
     [](const Network& net) -> double { return net.moved_by_ranks ? 1 : 0; }},
    {"lent_in_place", 0, 1, true, [](Network& net, double v) { net.lent_in_place = v == 1; },
     [](const Network& net) -> double { return net.lent_in_place ? 1 : 0; }},
    {"sender_share", 0, 1, false, [](Network& net, double v) { net.inside.sender_share = v; },
     [](const Network& net) { return net.inside.sender_share; }},
    {"across_latency_us", 0, kMostMicro, false,
     [](Network& net, double v) { net.across.latency_ns = v * kMicro; },
     [](const Network& net) { return net.across.latency_ns / kMicro; }},
    {"across_step_us", 0, kMostMicro, false,
     [](Network& net, double v) { net.across.step_ns = v * kMicro; },
     [](const Network& net) { return net.across.step_ns / kMicro; }},
    {"across_gb_per_s", kLeastGiga, kMostGiga, false,
     [](Network& net, double v) { net.across.bandwidth_bytes_per_s = v * kGiga; },
     [](const Network& net) { return net.across.bandwidth_bytes_per_s / kGiga; }},
    {"nic_gb_per_s", kLeastGiga, kMostGiga, false,
     [](Network& net, double v) { net.nic_bytes_per_s = v * kGiga; },
     [](const Network& net) { return net.nic_bytes_per_s / kGiga; }},
    {"reduce_gb_per_s", kLeastGiga, kMostGiga, false,
     [](Network& net, double v) { net.reduce_bytes_per_s = v * kGiga; },
     [](const Network& net) { return net.reduce_bytes_per_s / kGiga; }},
    {"slots_per_link", 2, 1024, true,
     [](Network& net, double v) { net.slots_per_link = static_cast<std::uint32_t>(v); },
     [](const Network& net) -> double { return net.slots_per_link; }},
    {"slot_kib", 1, 1 << 20, true,
     [](Network& net, double v) { net.slot_bytes = static_cast<std::size_t>(v * kKibi); },
     [](const Network& net) { return static_cast<double>(net.slot_bytes) / kKibi; }},
});

/// Numbers that must be given, and those that several nodes also need.
constexpr std::array<std::string_view, 3> kNeeded = {"inside_latency_us", "inside_gb_per_s",
                                                     "reduce_gb_per_s"};
constexpr std::array<std::string_view, 2> kNeededAcross = {"across_latency_us", "across_gb_per_s"};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

const Field* find_field(std::string_view name) {
  const auto found = std::ranges::find(kFields, name, &Field::name);
  return found == kFields.end() ? nullptr : &*found;
}

std::string unknown_name(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Field& field : kFields) names.push_back(field.name);
  return unknown_word("number", name, names);
}

Result<double> parse_value(const Field& field, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool read = error == std::errc() && end == text.data() + text.size();
  // NaN must fail this comparison.
  const bool fits = read && value >= field.least && value <= field.most;
  if (fits && (!field.whole || value == static_cast<double>(static_cast<std::int64_t>(value))))
    return value;
  return fail(ErrorKind::invalid_argument, "{} is a {} from {:g} to {:g}, not '{}'", field.name,
              field.whole ? "whole number" : "number", field.least, field.most, text);
}

/// Reads a line that is not empty or a comment.
Status read_line(std::string_view line, Network& network) {
  const auto comment = line.find('#');
  const std::string_view said = line.substr(0, comment);
  const auto equals = said.find('=');
  if (equals == std::string_view::npos)
    return fail(ErrorKind::invalid_argument, "expected 'name = number', not '{}'", trimmed(said));
  const std::string_view name = trimmed(said.substr(0, equals));
  const Field* field = find_field(name);
  if (field == nullptr) return fail(ErrorKind::invalid_argument, "{}", unknown_name(name));
  const auto value = parse_value(*field, trimmed(said.substr(equals + 1)));
  if (!value) return tl::unexpected(value.error());
  const auto source =
      comment == std::string_view::npos ? "no source given" : trimmed(line.substr(comment + 1));
  if (!network.sources.emplace(name, source).second)
    return fail(ErrorKind::invalid_argument, "{} was given before", name);
  field->set(network, *value);
  return {};
}

/// Derives the numbers that were not given from the others.
void fill_in(Network& network) {
  const auto given = [&](std::string_view name) { return network.sources.contains(name); };
  const auto note = [&](std::string_view name, std::string_view why) {
    network.sources.emplace(name, fmt::format("not given: {}", why));
  };
  if (!given("inside_step_us")) network.inside.step_ns = 0;
  if (!given("across_step_us")) network.across.step_ns = 0;
  if (!given("port_gb_per_s")) network.port_bytes_per_s = network.inside.bandwidth_bytes_per_s;
  if (network.ranks_per_node == 0 && !given("across_latency_us")) network.across = network.inside;
  if (!given("nic_gb_per_s")) network.nic_bytes_per_s = network.across.bandwidth_bytes_per_s;
  note("inside_step_us", "0, latency has all of it");
  note("across_step_us", "0, latency has all of it");
  note("port_gb_per_s", "that of one link");
  note("nic_gb_per_s", "that of one link");
  note("slots_per_link", "ccoll's links (src/transport/link.hpp)");
  note("slot_kib", "ccoll's links (src/transport/link.hpp)");
}

Status check_complete(const Network& network) {
  const auto check = [&](std::span<const std::string_view> names, std::string_view why) -> Status {
    for (const std::string_view name : names) {
      if (!network.sources.contains(name))
        return fail(ErrorKind::invalid_argument, "{} is missing{}", name, why);
    }
    return {};
  };
  CCOLL_TRY(check(kNeeded, ""));
  if (network.ranks_per_node > 0)
    CCOLL_TRY(check(kNeededAcross, ", which several nodes (ranks_per_node) need"));
  return {};
}

}  // namespace

Result<Network> parse_network(std::string_view text) {
  Network network;
  int number = 0;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.empty() || line.front() == '#') continue;
    if (const Status read = read_line(line, network); !read)
      return fail(ErrorKind::invalid_argument, "line {}: {}", number, read.error().message);
  }
  CCOLL_TRY(check_complete(network));
  fill_in(network);
  return network;
}

std::string to_text(const Network& network) {
  std::string text;
  for (const Field& field : kFields) {
    const auto source = network.sources.find(field.name);
    if (source == network.sources.end()) continue;
    const auto line = fmt::format("{} = {}", field.name, field.get(network));
    text += fmt::format("{:<28}# {}\n", line, source->second);
  }
  return text;
}

Problem placed_on(const Network& network, Problem problem) {
  problem.host_of.clear();
  if (network.ranks_per_node <= 1 || network.nodes(problem.size) == 1) return problem;
  for (Rank rank = 0; rank < problem.size; ++rank)
    problem.host_of.push_back(rank / network.ranks_per_node);
  return problem;
}

CostTable cost_table(const Network& network, Rank size) {
  const Rank beside = network.ranks_per_node == 0 ? size : std::min(size, network.ranks_per_node);
  CostTable costs;
  costs.inside = network.inside;
  costs.links = network.nodes(size) > 1 ? network.across : network.inside;
  costs.reduce_bytes_per_s = network.reduce_bytes_per_s;
  costs.slot_bytes = network.slot_bytes;
  if (!network.moved_by_ranks) costs.wires_inside_bytes_per_s = network.port_bytes_per_s;
  costs.host_bytes_per_s = network.nic_bytes_per_s * std::min(network.nics_per_node, beside);
  costs.wires_bytes_per_s =
      network.nodes(size) > 1 ? network.nic_bytes_per_s : costs.wires_inside_bytes_per_s;
  if (network.cores_per_node > 0)
    costs.cores_per_rank = static_cast<double>(network.cores_per_node) / beside;
  return costs;
}

}  // namespace ccoll::sim
