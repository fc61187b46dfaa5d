// SPDX-License-Identifier: Apache-2.0
#include "show/real_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <vector>

#include "bench/names.hpp"
#include "ccoll/ccoll.hpp"
#include "core/text.hpp"
#include "show/call.hpp"
#include "show/expression.hpp"
#include "show/numbers.hpp"

namespace ccoll::show {

namespace {

constexpr std::uint32_t kMostRanksCalled = 64;
/// Of all ranks' buffers: more is not read by people.
constexpr std::uint64_t kMostElementsShown = 100'000;
constexpr std::chrono::seconds kPatience{60};

struct Words {
  CallWords call;
  std::string input = "10*r+i";
  std::string transport = "inproc";
  bool json = false;
};

/// What every rank puts in, and gets.
struct Buffers {
  std::vector<std::vector<std::byte>> before, after;
  std::string algorithm;  ///< empty where there is nothing to choose
};

/// The operations that can be called: blocks of different sizes have no place in an example.
Result<const bench::Operation*> operation_of(const std::string& name) {
  const auto* const found = bench::find_operation(name);
  if (found != nullptr && !found->ragged && found->has_data && found->name != "ping_pong")
    return found;
  std::vector<std::string_view> names;
  for (const bench::Operation& each : bench::operations())
    if (!each.ragged && each.has_data && each.name != "ping_pong") names.push_back(each.name);
  if (name.empty())
    return fail(ErrorKind::invalid_argument, "no operation given: there are {}", joined(names));
  return fail(ErrorKind::invalid_argument, "{}", unknown_word("operation", name, names));
}

/// The lines of a file, a rank's numbers each.
Result<std::vector<std::vector<double>>> numbers_in(std::ifstream& file, const std::string& path) {
  std::vector<std::vector<double>> ranks;
  for (std::string line; std::getline(file, line);) {
    std::ranges::replace(line, ',', ' ');
    std::istringstream words(line);
    auto& numbers = ranks.emplace_back();
    for (std::string word; words >> word;) {
      const auto value = evaluate(word, 0, 0, 0);
      if (!value || word.find_first_of("rin") != word.npos)
        return fail(ErrorKind::invalid_argument, "{}, line {}: '{}' is no number", path,
                    ranks.size(), word);
      numbers.push_back(*value);
    }
  }
  return ranks;
}

/// Element by element what each rank puts in: `elems` of them.
Result<std::vector<double>> values_of(const Words& words, int rank, std::uint64_t elems) {
  std::vector<double> values;
  if (std::ifstream file(words.input); file) {
    const auto ranks = numbers_in(file, words.input);
    CCOLL_TRY(ranks);
    const auto line = static_cast<std::size_t>(rank);
    if (elems > 0 && (line >= ranks->size() || (*ranks)[line].size() != elems))
      return fail(ErrorKind::invalid_argument,
                  "{}: rank {} (line {}) needs {} numbers, there are {} (see --count)", words.input,
                  rank, line + 1, elems, line < ranks->size() ? (*ranks)[line].size() : 0);
    return elems > 0 ? (*ranks)[line] : values;
  }
  for (std::uint64_t i = 0; i < elems; ++i) {
    const auto value = evaluate(words.input, static_cast<std::uint64_t>(rank), i, words.call.ranks);
    if (!value) return fail(value.error().kind, "--in {}", value.error().message);
    values.push_back(*value);
  }
  return values;
}

bench::Layout layout_of(const bench::Operation& operation, const CallWords& words, int rank,
                        std::uint64_t count) {
  return operation.layout({.size = static_cast<int>(words.ranks),
                           .rank = rank,
                           .root = static_cast<int>(words.root),
                           .count = count});
}

/// One line of the file that --in may name decides, else one element for each rank.
Result<std::uint64_t> count_of(const Words& words, const bench::Operation& operation) {
  if (words.call.count) return *words.call.count;
  std::ifstream file(words.input);
  if (!file) return operation.kind && !divides_whole_buffer(*operation.kind) ? 1 : words.call.ranks;
  const auto ranks = numbers_in(file, words.input);
  CCOLL_TRY(ranks);
  const auto root = std::min<std::size_t>(words.call.root, ranks->empty() ? 0 : ranks->size() - 1);
  const std::uint64_t numbers = ranks->empty() ? 0 : (*ranks)[root].size();
  const auto of_one = layout_of(operation, words.call, static_cast<int>(words.call.root), 1);
  return numbers / std::max<std::uint64_t>(1, of_one.input_elems);
}

Status check(const Words& words, const bench::Operation& operation, std::uint64_t count) {
  if (words.call.root >= words.call.ranks)
    return fail(ErrorKind::invalid_argument,
                "root {} does not exist among {} ranks: expected 0 to {}", words.call.root,
                words.call.ranks, words.call.ranks - 1);
  const std::uint64_t width = operation.over_blocks ? words.call.ranks : 1;
  if (count * width * words.call.ranks > kMostElementsShown)
    return fail(ErrorKind::invalid_argument,
                "{} ranks with {} elements each: expected are at most {} in all", words.call.ranks,
                count * width, kMostElementsShown);
  constexpr std::array<std::string_view, 3> kTransports = {"inproc", "shm", "tcp"};
  if (std::ranges::find(kTransports, words.transport) == kTransports.end())
    return fail(ErrorKind::invalid_argument, "{}",
                unknown_word("transport", words.transport, kTransports));
  return {};
}

/// Every rank makes the call; what the first that fails says.
std::string carry_out(const Words& words, const bench::Operation& operation,
                      bench::Arguments shared, Buffers& buffers) {
  CommunicatorOptions options;
  options.transport = words.transport;
  options.timeout = kPatience;
  const auto store = make_inproc_store();
  std::vector<std::string> wrong(words.call.ranks);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < words.call.ranks; ++rank) {
    threads.emplace_back([&, rank, arguments = shared]() mutable {
      try {
        auto communicator = Communicator::create(store, static_cast<int>(rank),
                                                 static_cast<int>(words.call.ranks), options);
        arguments.input = buffers.before[rank].data();
        arguments.output = buffers.after[rank].data();
        operation.call(communicator, arguments);
        if (rank == 0 && operation.kind && words.call.ranks > 1)
          buffers.algorithm = communicator.algorithm_for(operation.name, arguments.count,
                                                         arguments.type, arguments.options);
      } catch (const std::exception& error) {
        wrong[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto first = std::ranges::find_if(wrong, [](const auto& text) { return !text.empty(); });
  return first == wrong.end() ? std::string() : *first;
}

std::string joined_numbers(const Numbers& numbers) {
  return numbers.empty() ? "-" : joined(numbers, " ");
}

std::string table(const Words& words, const bench::Arguments& call, const Buffers& buffers) {
  std::vector<std::string> before;
  std::size_t width = 6;
  const auto texts = [&](const std::vector<std::byte>& buffer) {
    return joined_numbers(texts_of(call.type, buffer, 0, buffer.size() / size_of(call.type)));
  };
  for (const auto& buffer : buffers.before) {
    before.push_back(texts(buffer));
    width = std::max(width, before.back().size());
  }
  std::string text = fmt::format("{:<9}{:<{}}  after\n", "", "before", width);
  for (std::uint32_t rank = 0; rank < words.call.ranks; ++rank)
    text += fmt::format("{:<9}{:<{}}  {}\n", fmt::format("rank {}", rank), before[rank], width,
                        texts(buffers.after[rank]));
  return text;
}

std::string json(const Words& words, const bench::Operation& operation,
                 const bench::Arguments& call, const Buffers& buffers) {
  const auto numbers = [&](const std::vector<std::vector<std::byte>>& all) {
    auto ranks = nlohmann::json::array();
    for (const auto& buffer : all) {
      auto& row = ranks.emplace_back(nlohmann::json::array());
      for (const auto& text : texts_of(call.type, buffer, 0, buffer.size() / size_of(call.type))) {
        // What JSON has no number for, as inf, is a text.
        const auto number = nlohmann::json::parse(text, nullptr, false);
        row.push_back(number.is_number() ? number : nlohmann::json(text));
      }
    }
    return ranks;
  };
  nlohmann::json document = {
      {"op", operation.name},
      {"ranks", words.call.ranks},
      {"count", call.count},
      {"dtype", to_string(call.type)},
      {"algo", buffers.algorithm},
      {"transport", words.transport},
      {"before", numbers(buffers.before)},
      {"after", numbers(buffers.after)},
  };
  if (operation.reduces) document["redop"] = to_string(call.op);
  if (operation.rooted) document["root"] = call.root;
  return document.dump(1) + "\n";
}

Result<Output> show_call(const Words& words) {
  const auto operation = operation_of(words.call.operation);
  CCOLL_TRY(operation);
  const auto kinds = bench::parse_reduce_ops(words.call.op);
  CCOLL_TRY(kinds);
  const auto types = bench::parse_types(words.call.type);
  CCOLL_TRY(types);
  if (kinds->size() != 1 || types->size() != 1)
    return fail(ErrorKind::invalid_argument, "op {}, type {}: expected one of each", words.call.op,
                words.call.type);
  const auto count = count_of(words, **operation);
  CCOLL_TRY(count);
  CCOLL_TRY(check(words, **operation, *count));
  bench::Arguments call{.input = nullptr,
                        .output = nullptr,
                        .count = *count,
                        .type = types->front(),
                        .op = kinds->front(),
                        .root = static_cast<int>(words.call.root),
                        .options = {}};
  call.options.algorithm = words.call.algorithm;

  Buffers buffers;
  for (int rank = 0; rank < static_cast<int>(words.call.ranks); ++rank) {
    const auto layout = layout_of(**operation, words.call, rank, *count);
    const auto values = values_of(words, rank, layout.input_elems);
    CCOLL_TRY(values);
    auto input = bytes_of(call.type, *values);
    if (!input) return fail(input.error().kind, "rank {}: {}", rank, input.error().message);
    buffers.before.push_back(std::move(*input));
    buffers.after.emplace_back(layout.output_elems * size_of(call.type));
  }
  if (const auto wrong = carry_out(words, **operation, call, buffers); !wrong.empty())
    return fail(ErrorKind::invalid_argument, "{}", wrong);
  if (words.json) return Output{json(words, **operation, call, buffers), 0};
  std::string text = fmt::format("{} of {} {}{}", (*operation)->name, *count, to_string(call.type),
                                 (*operation)->over_blocks ? " in each block" : "");
  if ((*operation)->reduces) text += fmt::format(", {}", to_string(call.op));
  if ((*operation)->rooted) text += fmt::format(", root {}", call.root);
  if (!buffers.algorithm.empty()) text += fmt::format(", by {}", buffers.algorithm);
  return Output{text + fmt::format(", {} ranks over {}\n\n", words.call.ranks, words.transport) +
                    table(words, call, buffers),
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
  app.add_option("--transport", words->transport, "inproc, shm or tcp")->capture_default_str();
  app.add_flag("--json", words->json, "as JSON");
  app.get_option("--algo")->description("the algorithm (default: by cost)");
  return [words] { return show_call(*words); };
}

}  // namespace ccoll::show
