// SPDX-License-Identifier: Apache-2.0
#include "comm/record/trace/texts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "algorithms/algorithms.hpp"
#include "core/text.hpp"

namespace ccoll::trace {
namespace {

using Facts = std::map<std::string, std::string, std::less<>>;

constexpr std::uint64_t kMostLanes = 64;
constexpr auto kAny = std::numeric_limits<std::uint64_t>::max();

Facts facts_of(std::string_view text) {
  Facts facts;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const auto space = line.find(' ');
    if (space != line.npos) facts.emplace(line.substr(0, space), line.substr(space + 1));
  }
  return facts;
}

Result<std::string> word(const Facts& facts, std::string_view name) {
  const auto found = facts.find(name);
  if (found == facts.end()) return fail(ErrorKind::corrupt, "its text has no '{}'", name);
  return found->second;
}

template <typename Number>
std::optional<Number> number_in(std::string_view text, int base = 10) {
  Number value{};
  const auto* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

/// The fact `name` as a number from `least` to `most`.
template <typename Number>
Status read(const Facts& facts, std::string_view name, Number& value, std::uint64_t least = 0,
            std::uint64_t most = kAny, int base = 10) {
  const auto text = word(facts, name);
  CCOLL_TRY(text);
  const auto number = number_in<Number>(*text, base);
  if (!number || static_cast<std::uint64_t>(*number) < least ||
      static_cast<std::uint64_t>(*number) > most)
    return fail(ErrorKind::corrupt, "'{} {}': expected a number from {} to {}", name, *text, least,
                most);
  value = *number;
  return {};
}

Status read(const Facts& facts, std::string_view name, std::string& value) {
  auto text = word(facts, name);
  CCOLL_TRY(text);
  value = std::move(*text);
  return {};
}

/// Text chosen by people must not end its line.
std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < ' '; }, '?');
  return text;
}

std::string list_of(const std::vector<std::uint32_t>& numbers) {
  std::vector<std::string> words;
  for (const auto number : numbers) words.push_back(std::to_string(number));
  return joined(words, ",");
}

Result<std::vector<std::uint32_t>> hosts_in(std::string_view text, Rank size) {
  std::vector<std::uint32_t> hosts;
  if (text.empty()) return hosts;
  std::set<std::uint32_t> different;
  for (std::size_t begin = 0; begin <= text.size() && hosts.size() <= size;) {
    const auto end = std::min(text.find(',', begin), text.size());
    const auto host = number_in<std::uint32_t>(text.substr(begin, end - begin));
    if (!host || *host >= size)
      return fail(ErrorKind::corrupt, "'host_of': expected numbers of hosts below {}", size);
    different.insert(*host);
    hosts.push_back(*host);
    begin = end + 1;
  }
  if (hosts.size() != size || *different.rbegin() + 1 != different.size())
    return fail(ErrorKind::corrupt, "'host_of': expected the hosts of {} ranks, without gaps",
                size);
  return hosts;
}

std::optional<DataType> type_named(std::string_view name) {
  const auto found = std::ranges::find(kDataTypes, name, [](auto type) { return to_string(type); });
  return found == kDataTypes.end() ? std::nullopt : std::optional(*found);
}

Status read_choice(const Facts& facts, Planned& planned) {
  std::string kind, algorithm, type;
  CCOLL_TRY(read(facts, "operation", kind));
  CCOLL_TRY(read(facts, "algorithm", algorithm));
  CCOLL_TRY(read(facts, "type", type));
  const auto known_kind = parse_kind(kind);
  const auto known_algorithm = parse_algorithm(algorithm);
  const auto known_type = type_named(type);
  if (!known_kind || !known_algorithm || find_algorithm(*known_kind, *known_algorithm) == nullptr)
    return fail(ErrorKind::corrupt, "this version of ccoll has no '{}' by '{}'", kind, algorithm);
  if (!known_type) return fail(ErrorKind::corrupt, "this version has no type '{}'", type);
  planned.problem.kind = *known_kind;
  planned.choice.algorithm = *known_algorithm;
  planned.type = *known_type;
  return {};
}

}  // namespace

std::string to_text(const About& about) {
  return fmt::format(
      "version {}\njob {:x}\ncommunicator {:x}\nname {}\nrank {}\nsize {}\nhost_of {}\nhost {}\n"
      "process {}\nclock {}\nwall_ns {}\n",
      about.version, about.job, about.communicator, one_line(about.name), about.rank, about.size,
      list_of(about.host_of), one_line(about.host), about.process, about.clock, about.wall_ns);
}

Result<About> parse_about(std::string_view text) {
  const auto facts = facts_of(text);
  About about;
  CCOLL_TRY(read(facts, "version", about.version));
  CCOLL_TRY(read(facts, "job", about.job, 0, kAny, 16));
  CCOLL_TRY(read(facts, "communicator", about.communicator, 0, kAny, 16));
  CCOLL_TRY(read(facts, "name", about.name));
  CCOLL_TRY(read(facts, "size", about.size, 1, kMostRanks));
  CCOLL_TRY(read(facts, "rank", about.rank, 0, about.size - 1));
  CCOLL_TRY(read(facts, "host", about.host));
  CCOLL_TRY(read(facts, "process", about.process));
  CCOLL_TRY(read(facts, "clock", about.clock));
  CCOLL_TRY(read(facts, "wall_ns", about.wall_ns));
  std::string hosts;
  CCOLL_TRY(read(facts, "host_of", hosts));
  auto host_of = hosts_in(hosts, about.size);
  CCOLL_TRY(host_of);
  about.host_of = std::move(*host_of);
  return about;
}

std::string to_text(const Planned& planned) {
  const auto& [problem, ragged, choice, type, op] = planned;
  return fmt::format(
      "operation {}\nalgorithm {}\ncount {}\nroot {}\nragged {}\nlanes {}\nslice_elems {}\n"
      "type {}\nop {}\n",
      to_string(problem.kind), to_string(choice.algorithm), problem.count, problem.root,
      ragged ? 1 : 0, choice.lanes, choice.slice_elems, to_string(type), one_line(op));
}

Result<Planned> parse_planned(std::string_view text, const About& about) {
  const auto facts = facts_of(text);
  Planned planned;
  CCOLL_TRY(read_choice(facts, planned));
  auto& problem = planned.problem;
  problem.size = about.size;
  problem.host_of = about.host_of;
  std::uint32_t ragged = 0;
  CCOLL_TRY(read(facts, "count", problem.count, 0, kMostElements));
  CCOLL_TRY(read(facts, "root", problem.root, 0, about.size - 1));
  CCOLL_TRY(read(facts, "ragged", ragged, 0, 1));
  CCOLL_TRY(read(facts, "lanes", planned.choice.lanes, 1, kMostLanes));
  CCOLL_TRY(read(facts, "slice_elems", planned.choice.slice_elems, 1, kAny));
  CCOLL_TRY(read(facts, "op", planned.op));
  planned.ragged = ragged != 0;
  const auto* entry = find_algorithm(problem.kind, planned.choice.algorithm);
  if ((planned.ragged && !entry->ragged) || (problem.host_of.empty() && entry->by_host))
    return fail(ErrorKind::corrupt, "{} by {} is not for such blocks, or one host",
                to_string(problem.kind), to_string(planned.choice.algorithm));
  return planned;
}

}  // namespace ccoll::trace
