// SPDX-License-Identifier: Apache-2.0
#include "show/commands/real_call.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <system_error>
#include <vector>

#include "bench/command/names.hpp"
#include "bench/command/width.hpp"
#include "bench/report/text_file.hpp"
#include "core/text.hpp"
#include "show/model/call.hpp"
#include "show/real/buffer_list.hpp"
#include "show/real/chain.hpp"
#include "show/real/example.hpp"
#include "show/real/expression.hpp"
#include "show/real/local_ranks.hpp"
#include "show/real/rank_groups.hpp"
#include "show/real/splits.hpp"
#include "show/text/numbers.hpp"

namespace ccoll::show {

namespace {

constexpr std::uint32_t kMostRanksCalled = 64;
/// In all ranks' buffers: people do not read more.
constexpr std::uint64_t kMostElementsShown = 100'000;
constexpr std::size_t kMostInputBytes = 16 << 20;
/// With at most so many rows, no count of elements overflows.
constexpr std::uint64_t kMostMatrixRows = 1000;

struct Words {
  CallWords call;
  std::string splits;
  std::optional<std::uint64_t> rows;
  std::string groups;
  std::string buffers;
  std::string chain;
  std::string input = "10*r+i";
  std::string transport = "inproc";
  bool json = false;
  std::optional<std::size_t> width;
};

bool is_callable(const bench::Operation& operation) { return operation.name != "ping_pong"; }

/// Whether --count says how many columns of the matrix each rank has.
bool has_equal_columns(const Words& words) { return words.rows && words.splits.empty(); }

/// 0 if the operation has none, though others of the same call may.
std::uint32_t root_for(const Words& words, const bench::Operation& operation) {
  return operation.rooted ? words.call.root.value_or(0) : 0;
}

/// With --splits or --rows, the v-operation of that name; with --chain, messages in sequence.
Result<const bench::Operation*> operation_of(const Words& words, const std::string& name) {
  const bench::Operation* found = bench::find_operation(name);
  if (found == nullptr || !is_callable(*found)) {
    std::vector<std::string_view> names;
    for (const bench::Operation& each : bench::operations())
      if (is_callable(each)) names.push_back(each.name);
    if (name.empty())
      return fail(ErrorKind::invalid_argument, "no operation given: there are {}", joined(names));
    return fail(ErrorKind::invalid_argument, "{}", unknown_word("operation", name, names));
  }
  if (!words.chain.empty()) {
    if (found->name == "send_recv") return &kChain;
    return fail(ErrorKind::invalid_argument,
                "--chain {}: {} does not hand messages on; expected send_recv", words.chain,
                found->name);
  }
  if ((words.rows || !words.splits.empty()) && !found->ragged) {
    const bench::Operation* const ragged = bench::find_operation(fmt::format("{}_v", found->name));
    if (ragged == nullptr)
      return fail(ErrorKind::invalid_argument,
                  "{}: {} has no blocks {}; expected all_gather, reduce_scatter, all_to_all, "
                  "gather or scatter",
                  words.rows ? fmt::format("--rows {}", *words.rows)
                             : fmt::format("--splits {}", words.splits),
                  found->name, words.rows ? "that can be columns" : "of different sizes");
    found = ragged;
  }
  if (found->ragged && words.call.count && !has_equal_columns(words))
    return fail(ErrorKind::invalid_argument,
                "--count {}: {} has blocks of different sizes; expected --splits, like 1,0,2",
                *words.call.count, found->name);
  return found;
}

/// The numbers of a rank in each line.
using InputLines = std::vector<std::vector<double>>;

/// The lines of the file that --in names; empty if it is an expression.
Result<InputLines> input_lines(const std::string& path) {
  InputLines lines;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return lines;
  const auto text = bench::text_in(path, kMostInputBytes);
  if (!text) return fail(ErrorKind::invalid_argument, "--in: {}", text.error().message);
  std::istringstream file(*text);
  for (std::string line; std::getline(file, line);) {
    std::ranges::replace(line, ',', ' ');
    std::istringstream words(line);
    auto& numbers = lines.emplace_back();
    for (std::string word; words >> word;) {
      const auto value = evaluate(word, 0, 0, 0);
      if (!value || word.find_first_of("rin") != word.npos)
        return fail(ErrorKind::invalid_argument, "{}, line {}: '{}' is not a number", path,
                    lines.size(), word);
      numbers.push_back(*value);
    }
  }
  return lines;
}

/// Evaluates a rank's input element by element: `elems` of them.
Result<std::vector<double>> values_of(const Words& words, const InputLines& lines,
                                      std::uint32_t rank, std::uint64_t elems) {
  std::vector<double> values;
  if (!lines.empty()) {
    if (elems == 0) return values;
    const std::size_t there_are = rank < lines.size() ? lines[rank].size() : 0;
    if (there_are == elems) return lines[rank];
    return fail(ErrorKind::invalid_argument,
                "{}: rank {} (line {}) needs {} numbers, there are {} (see --count, --splits "
                "and --rows)",
                words.input, rank, rank + 1, elems, there_are);
  }
  for (std::uint64_t i = 0; i < elems; ++i) {
    const auto value = evaluate(words.input, rank, i, words.call.ranks);
    if (!value) return fail(value.error().kind, "--in {}", value.error().message);
    values.push_back(*value);
  }
  return values;
}

/// One line of the file of --in determines it, else one element for each rank.
std::uint64_t count_of(const Words& words, const InputLines& lines, Example example) {
  const bench::Operation& operation = *example.operation;
  if (!operation.has_data || operation.ragged || !example.buffers.empty()) return 0;
  if (words.call.count) return *words.call.count;
  if (lines.empty())
    return operation.kind && !divides_whole_buffer(*operation.kind) ? 1 : words.call.ranks;
  const Party& party = example.parties.front();
  const auto root = operation.rooted ? static_cast<std::size_t>(example.arguments.root) : 0;
  const std::size_t line = party.ranks[root];
  example.arguments.count = 1;
  const std::uint64_t numbers = line < lines.size() ? lines[line].size() : 0;
  return numbers / std::max<std::uint64_t>(1, lengths_of(example, party, root).input);
}

/// The groups of --groups or --chain, else one group of all ranks.
Result<std::vector<RankGroup>> groups_of(const Words& words) {
  if (!words.groups.empty()) return rank_groups_of(words.groups, words.call.ranks);
  if (words.chain.empty()) {
    std::vector<RankGroup> all(1);
    for (std::uint32_t rank = 0; rank < words.call.ranks; ++rank) all.front().push_back(rank);
    return all;
  }
  auto chains = rank_groups_of(words.chain, words.call.ranks, "--chain", "chain");
  CCOLL_TRY(chains);
  for (const RankGroup& chain : *chains)
    if (chain.size() == 1)
      return fail(ErrorKind::invalid_argument,
                  "--chain {}: a chain of rank {} alone, expected two ranks or more", words.chain,
                  chain.front());
  return chains;
}

/// --splits, or the same number of columns for each rank.
std::string splits_text(const Words& words, std::size_t ranks) {
  if (!has_equal_columns(words)) return words.splits;
  const std::string columns = std::to_string(words.call.count.value_or(1));
  return joined(std::vector(ranks, columns), ",");
}

/// The groups that call together, each with its root.
Result<std::vector<Party>> parties_of(const Words& words, const bench::Operation& operation) {
  auto groups = groups_of(words);
  CCOLL_TRY(groups);
  std::vector<Party> parties;
  for (RankGroup& group : *groups) {
    const std::size_t size = group.size();
    const auto root = root_for(words, operation);
    if (root >= size)
      return fail(ErrorKind::invalid_argument,
                  "root {} does not exist among {} ranks{}: expected 0 to {}", root, size,
                  words.groups.empty() ? "" : fmt::format(" (group {})", group_text(group)),
                  size - 1);
    Party party{std::move(group), {}, {}};
    if (operation.ragged) {
      auto splits =
          Splits::of(operation, splits_text(words, size), static_cast<int>(size), words.rows);
      CCOLL_TRY(splits);
      party.splits.push_back(std::move(*splits));
    }
    parties.push_back(std::move(party));
  }
  return parties;
}

/// Messages have no algorithms and ignore the name.
Status check_algorithm(const bench::Operation& operation, const std::string& name) {
  if (name.empty() || !operation.kind) return {};
  std::vector<std::string_view> names;
  for (const Algorithm algorithm : bench::algorithms_of(operation))
    names.push_back(to_string(algorithm));
  const auto is_it = [&](std::string_view each) { return folded(each) == folded(name); };
  if (std::ranges::any_of(names, is_it)) return {};
  return fail(ErrorKind::invalid_argument, "{}",
              unknown_word(fmt::format("{} algorithm", operation.name), name, names));
}

Status check_size(const Example& example) {
  std::uint64_t all = 0;
  for (const Party& party : example.parties) {
    for (std::size_t number = 0; number < party.ranks.size(); ++number) {
      const Lengths lengths = lengths_of(example, party, number);
      all += std::max(lengths.input, lengths.output);
    }
  }
  if (all <= kMostElementsShown) return {};
  return fail(ErrorKind::invalid_argument, "{} ranks with {} elements in all: expected at most {}",
              example.ranks, all, kMostElementsShown);
}

/// Gives every rank its numbers, and memory for its results.
Status fill(const Words& words, const InputLines& lines, Example& example) {
  const DataType type = example.arguments.type;
  example.before.resize(example.ranks);
  example.after.resize(example.ranks);
  for (const Party& party : example.parties) {
    for (std::size_t number = 0; number < party.ranks.size(); ++number) {
      const std::uint32_t rank = party.ranks[number];
      const Lengths lengths = lengths_of(example, party, number);
      const auto values = values_of(words, lines, rank, lengths.input);
      CCOLL_TRY(values);
      auto input = bytes_of(type, *values);
      if (!input) return fail(input.error().kind, "rank {}: {}", rank, input.error().message);
      example.before[rank] = std::move(*input);
      example.after[rank].resize(lengths.output * size_of(type));
    }
  }
  return {};
}

/// Checks options that exclude one another.
Status check_options(const Words& words, std::size_t operations) {
  if (!words.chain.empty() && !words.groups.empty())
    return fail(ErrorKind::invalid_argument,
                "--chain {} and --groups {}: expected one of them; several chains are given like "
                "0,1/2,3",
                words.chain, words.groups);
  if (!words.chain.empty() && operations > 1)
    return fail(ErrorKind::invalid_argument,
                "--chain {}: its messages wait for one another, which {} calls as one cannot do; "
                "expected one operation",
                words.chain, operations);
  if (words.rows && !words.chain.empty())
    return fail(ErrorKind::invalid_argument,
                "--chain {} and --rows {}: expected one of them; --rows is for operations with a "
                "block for each rank",
                words.chain, *words.rows);
  if (words.buffers.empty()) return {};
  if (words.rows)
    return fail(ErrorKind::invalid_argument,
                "--rows {} and --buffers {}: expected one of them; v-operations take no list of "
                "buffers",
                *words.rows, words.buffers);
  if (words.call.count)
    return fail(ErrorKind::invalid_argument,
                "--count {} and --buffers {}: expected one of them; --buffers has the elements of "
                "each buffer",
                *words.call.count, words.buffers);
  if (words.splits.empty()) return {};
  return fail(ErrorKind::invalid_argument,
              "--splits {} and --buffers {}: expected one of them; v-operations take no list of "
              "buffers",
              words.splits, words.buffers);
}

Result<Example> example_of(const Words& words, const std::string& name) {
  Example example;
  const auto operation = operation_of(words, name);
  CCOLL_TRY(operation);
  const auto kinds = bench::parse_reduce_ops(words.call.op);
  CCOLL_TRY(kinds);
  const auto types = bench::parse_types(words.call.type);
  CCOLL_TRY(types);
  if (kinds->size() != 1 || types->size() != 1)
    return fail(ErrorKind::invalid_argument, "op {}, type {}: expected one of each", words.call.op,
                words.call.type);
  CCOLL_TRY(check_transport(words.transport));
  CCOLL_TRY(check_algorithm(**operation, words.call.algorithm));
  if (!words.buffers.empty()) {
    auto buffers = buffer_counts_of(**operation, words.buffers);
    CCOLL_TRY(buffers);
    example.buffers = std::move(*buffers);
  }
  auto parties = parties_of(words, **operation);
  CCOLL_TRY(parties);
  example.operation = *operation;
  example.ranks = words.call.ranks;
  example.transport = words.transport;
  example.is_parted = !words.groups.empty() || !words.chain.empty();
  example.parties = std::move(*parties);
  example.arguments.type = types->front();
  example.arguments.op = kinds->front();
  example.arguments.root = static_cast<int>(root_for(words, **operation));
  example.arguments.options.algorithm = words.call.algorithm;
  const auto lines = input_lines(words.input);
  CCOLL_TRY(lines);
  example.arguments.count = count_of(words, *lines, example);
  CCOLL_TRY(check_size(example));
  CCOLL_TRY(fill(words, *lines, example));
  return example;
}

Result<Output> show_call(const Words& words) {
  std::vector<std::string> names = bench::split_list(words.call.operation);
  if (names.empty()) names.emplace_back();
  CCOLL_TRY(check_options(words, names.size()));
  std::vector<Example> examples;
  for (const std::string& name : names) {
    auto example = example_of(words, name);
    CCOLL_TRY(example);
    examples.push_back(std::move(*example));
  }
  const auto is_rooted = [](const Example& each) { return each.operation->rooted; };
  if (words.call.root && std::ranges::none_of(examples, is_rooted))
    return fail(ErrorKind::invalid_argument, "--root {}: {} has no root", *words.call.root,
                joined(names, " or "));
  if (const auto wrong = carry_out(examples); !wrong.empty())
    return fail(ErrorKind::invalid_argument, "{}", wrong);
  return Output{words.json ? examples_json(examples)
                           : examples_text(examples, bench::columns_of(words.width)),
                0};
}

}  // namespace

Action add_real_call(CLI::App& app) {
  const auto words = std::make_shared<Words>();
  add_call_options(app, words->call, kMostRanksCalled);
  app.remove_option(app.get_option("--hosts"));
  app.add_option("--in", words->input,
                 "what element i of rank r is, of n ranks; or a file with a line of numbers for "
                 "each rank")
      ->capture_default_str();
  app.add_option("--splits", words->splits,
                 "elements of each rank's block in a v-operation, like 1,0,2; for all_to_all_v "
                 "also a list for each sender, like 1,2/3,4 (default: r + 1 for rank r)");
  app.add_option("--rows", words->rows,
                 "buffers are matrices of so many rows, and the ranks' blocks are columns of them: "
                 "--count (default: 1) or --splits says how many")
      ->check(CLI::Range(std::uint64_t{1}, kMostMatrixRows));
  app.add_option(
      "--groups", words->groups,
      "groups of ranks, each of which makes the call for itself, like 0,2/1,3; --root is then a "
      "number in the group");
  app.add_option("--buffers", words->buffers,
                 "several buffers in the one call: the elements of each, like 2,3,1");
  app.add_option("--chain", words->chain,
                 "with send_recv: ranks that hand a message on, each to the next, like 0,2,1; "
                 "several chains like 0,1/2,3");
  app.get_option("OP")->description(
      "the operation: all_reduce, broadcast, …; several, like all_reduce,all_gather, are made as "
      "one (group_begin, group_end)");
  app.add_option("--transport", words->transport, "inproc, shm, verbs or tcp")
      ->capture_default_str();
  app.add_flag("--json", words->json, "as JSON");
  bench::add_width_option(app, words->width);
  app.get_option("--algo")->description("the algorithm (default: by cost)");
  return [words] { return show_call(*words); };
}

}  // namespace ccoll::show
