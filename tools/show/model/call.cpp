// SPDX-License-Identifier: Apache-2.0
#include "show/model/call.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <vector>

#include "bench/command/names.hpp"
#include "core/text.hpp"

namespace ccoll::show {

namespace {

/// "4,2": host 0 has ranks 0 to 3, host 1 has 4 and 5.
Result<std::vector<std::uint32_t>> hosts_of(const CallWords& words) {
  std::vector<std::uint32_t> host_of;
  std::uint32_t host = 0;
  for (const std::string& part : bench::split_list(words.hosts)) {
    std::uint32_t ranks = 0;
    const char* const end = part.data() + part.size();
    const auto [stopped, error] = std::from_chars(part.data(), end, ranks);
    if (error != std::errc() || stopped != end || ranks == 0 || ranks > words.ranks) {
      return fail(ErrorKind::invalid_argument,
                  "--hosts {}: expected the number of ranks on each host, like 4,4", words.hosts);
    }
    host_of.insert(host_of.end(), ranks, host++);
  }
  if (!host_of.empty() && host_of.size() != words.ranks) {
    return fail(ErrorKind::invalid_argument, "--hosts {}: that is {} ranks, but -n is {}",
                words.hosts, host_of.size(), words.ranks);
  }
  return host_of;
}

Result<const CatalogueEntry*> entry_of(const CallWords& words, Kind kind) {
  const std::vector<Algorithm> there_are = algorithms_for(kind);
  if (words.algorithm.empty()) return find_algorithm(kind, there_are.front());
  std::vector<std::string_view> names;
  for (const Algorithm algorithm : there_are) {
    names.push_back(to_string(algorithm));
    if (folded(names.back()) == folded(words.algorithm)) return find_algorithm(kind, algorithm);
  }
  return fail(ErrorKind::invalid_argument, "{}",
              unknown_word(fmt::format("{} algorithm", to_string(kind)), words.algorithm, names));
}

}  // namespace

void add_problem_options(CLI::App& app, CallWords& words, std::uint32_t most_ranks) {
  app.add_option("OP", words.operation, "the operation: all_reduce, broadcast, …");
  const auto is_rank_count = [most_ranks, command = app.get_name()](const std::string& text) {
    std::uint32_t ranks = 0;
    const bool is_number = CLI::detail::lexical_cast(text, ranks) && ranks >= 1;
    if (is_number && ranks <= most_ranks) return std::string();
    if (!is_number || most_ranks == kMostRanks)
      return fmt::format("'{}' is not a number of ranks: expected 1 to {}", text, most_ranks);
    return fmt::format(
        "{} ranks are too many for cc-show {}: expected 1 to {}; cc-show simulate goes up to {}",
        ranks, command, most_ranks, kMostRanks);
  };
  app.add_option("-n,--ranks", words.ranks, "how many ranks")
      ->check(is_rank_count)
      ->capture_default_str();
  app.add_option("-c,--count", words.count,
                 fmt::format("elements: of the whole buffer of all_reduce, reduce and broadcast, "
                             "of one rank's block of the others (default: {})",
                             words.count ? fmt::format("{}", *words.count) : "one for each rank"))
      ->check(CLI::Range(std::uint64_t{0}, kMostElements));
  app.add_option("--root", words.root, "the root, where the operation has one (default: 0)")
      ->check(CLI::Range(std::uint32_t{0}, most_ranks - 1));
  app.add_option("--hosts", words.hosts,
                 "ranks on each host, like 4,4, for the algorithms that know of hosts");
}

void add_call_options(CLI::App& app, CallWords& words, std::uint32_t most_ranks) {
  add_problem_options(app, words, most_ranks);
  app.add_option("-a,--algo", words.algorithm,
                 "the algorithm (default: the first that cc-show list OP names)");
  app.add_option("--op", words.op, "how contributions are combined")->capture_default_str();
  app.add_option("--dtype", words.type, "the elements' type")->capture_default_str();
}

Result<const bench::Operation*> operation_named(const std::string& name) {
  const bench::Operation* found = bench::find_operation(name);
  if (found != nullptr && found->kind && !found->ragged) return found;
  std::vector<std::string_view> names;
  for (const bench::Operation& each : bench::operations()) {
    if (each.kind && !each.ragged) names.push_back(each.name);
  }
  if (name.empty()) {
    return fail(ErrorKind::invalid_argument, "no operation given: there are {}", joined(names));
  }
  return fail(ErrorKind::invalid_argument, "{}", unknown_word("operation", name, names));
}

Result<std::uint32_t> root_of(std::optional<std::uint32_t> asked, const bench::Operation& operation,
                              std::uint32_t ranks) {
  if (asked && !operation.rooted)
    return fail(ErrorKind::invalid_argument, "root {}: {} has no root", *asked, operation.name);
  const std::uint32_t root = asked.value_or(0);
  if (root < ranks) return root;
  return fail(ErrorKind::invalid_argument,
              "root {} does not exist among {} ranks: expected 0 to {}", root, ranks, ranks - 1);
}

Result<Call> call_of(const CallWords& words) {
  Call call;
  const auto operation = operation_named(words.operation);
  CCOLL_TRY(operation);
  call.operation = *operation;
  Problem& problem = call.problem;
  problem.kind = *call.operation->kind;
  problem.size = words.ranks;
  const auto root = root_of(words.root, *call.operation, problem.size);
  CCOLL_TRY(root);
  problem.root = *root;
  problem.count = words.count.value_or(divides_whole_buffer(problem.kind) ? words.ranks : 1);
  if (problem.kind == Kind::barrier) problem.count = 1;
  auto hosts = hosts_of(words);
  CCOLL_TRY(hosts);
  problem.host_of = std::move(*hosts);
  const auto entry = entry_of(words, problem.kind);
  CCOLL_TRY(entry);
  call.entry = *entry;
  const auto ops = bench::parse_reduce_ops(words.op);
  CCOLL_TRY(ops);
  const auto types = bench::parse_types(words.type);
  CCOLL_TRY(types);
  if (ops->size() != 1 || types->size() != 1) {
    return fail(ErrorKind::invalid_argument, "op {}, type {}: expected one of each", words.op,
                words.type);
  }
  call.op = ops->front();
  call.type = types->front();
  if (reduces(problem.kind) && !is_defined(call.op, call.type)) {
    return fail(ErrorKind::invalid_argument, "op {} is not defined on type {}", to_string(call.op),
                to_string(call.type));
  }
  return call;
}

namespace {

/// "8 elements", "blocks of 3, 0 and 1 elements"; for many, only the shortest and the longest.
std::string elements_text(const Problem& problem) {
  constexpr std::size_t kMostBlocksTold = 8;
  const auto& counts = problem.block_counts;
  if (counts.empty())
    return fmt::format("{} element{}{}", problem.count, problem.count == 1 ? "" : "s",
                       divides_whole_buffer(problem.kind) ? "" : " per block");
  if (counts.size() <= kMostBlocksTold) {
    std::vector<std::string> numbers;
    for (const std::uint64_t count : counts) numbers.push_back(std::to_string(count));
    return fmt::format("blocks of {} elements", joined(numbers));
  }
  const auto [least, most] = std::ranges::minmax(counts);
  return fmt::format("blocks of {} to {} elements", least, most);
}

}  // namespace

std::string call_text(const Call& call) {
  const Problem& problem = call.problem;
  std::string text = fmt::format(
      "{}{} by {}, {} rank{}", to_string(problem.kind), problem.block_counts.empty() ? "" : "_v",
      call.entry == nullptr ? "a schedule of your own" : to_string(call.entry->algorithm),
      problem.size, problem.size == 1 ? "" : "s");
  if (call.operation->has_data) text += ", " + elements_text(problem);
  if (call.operation->rooted) text += fmt::format(", root {}", problem.root);
  return text;
}

}  // namespace ccoll::show
