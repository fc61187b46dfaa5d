// SPDX-License-Identifier: Apache-2.0
#include "show/commands/simulate.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <charconv>
#include <memory>
#include <optional>
#include <utility>

#include "bench/command/columns.hpp"
#include "bench/command/names.hpp"
#include "bench/command/sizes.hpp"
#include "bench/command/width.hpp"
#include "bench/report/text_file.hpp"
#include "bench/report/whole_file.hpp"
#include "core/text.hpp"
#include "show/commands/check.hpp"
#include "show/model/call.hpp"
#include "show/model/study.hpp"
#include "show/page/study_json.hpp"
#include "show/page/study_page.hpp"
#include "show/real/timed_calls.hpp"
#include "sim/presets.hpp"

namespace ccoll::show {

namespace {

struct SimulateWords {
  std::string operation;
  std::string ranks = "8,64,512";
  std::string bytes = "8,64K,1M,64M";
  std::string network{sim::kDefaultNetwork};
  std::string algorithms = "all";
  std::string type = "float32";
  std::optional<Rank> root;
  bool writes = false;  ///< writes a page
  std::string page;
  std::string format = "text";
  bool shows_network = false;
  bool checks = false;
  std::string as_rank;
  std::optional<std::size_t> width;
};

/// Larger simulations are not useful.
constexpr std::size_t kMostValues = 64;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 44;
/// Limits a network's file.
constexpr std::size_t kMostNetworkBytes = 1 << 20;

Result<std::vector<Rank>> ranks_of(const std::string& list) {
  std::vector<Rank> all;
  for (const std::string& part : bench::split_list(list)) {
    Rank ranks = 0;
    const char* const end = part.data() + part.size();
    const auto [stopped, error] = std::from_chars(part.data(), end, ranks);
    if (error != std::errc() || stopped != end || ranks == 0 || ranks > kMostRanks)
      return fail(ErrorKind::invalid_argument,
                  "-n {}: '{}' is not a number of ranks: expected 1 to {}, like 8,64,512", list,
                  part, kMostRanks);
    all.push_back(ranks);
  }
  if (all.empty() || all.size() > kMostValues)
    return fail(ErrorKind::invalid_argument, "-n {}: expected 1 to {} numbers", list, kMostValues);
  return all;
}

/// "8,64K", "8..1G": each size from the first to the last is four times the one before.
Result<std::vector<std::uint64_t>> bytes_of(const std::string& list) {
  std::vector<std::uint64_t> all;
  for (const std::string& part : bench::split_list(list)) {
    const auto dots = part.find("..");
    const auto first = bench::parse_size(part.substr(0, dots));
    CCOLL_TRY(first);
    const auto last = dots == std::string::npos ? first : bench::parse_size(part.substr(dots + 2));
    CCOLL_TRY(last);
    if (*first == 0 || *last < *first || *last > kMostBytes)
      return fail(ErrorKind::invalid_argument, "-b {}: expected sizes from 1 to {}, in order", list,
                  bench::short_size(kMostBytes));
    for (const std::uint64_t bytes : bench::size_list({.begin = *first, .end = *last}, 1)) {
      if (all.empty() || bytes > all.back()) all.push_back(bytes);
    }
  }
  if (all.empty() || all.size() > kMostValues)
    return fail(ErrorKind::invalid_argument, "-b {}: expected 1 to {} sizes", list, kMostValues);
  return all;
}

Result<std::vector<Algorithm>> algorithms_of(const std::string& list, Kind kind) {
  const std::vector<Algorithm> there_are = algorithms_for(kind);
  if (list == "all") return there_are;
  std::vector<std::string_view> names;
  for (const Algorithm algorithm : there_are) names.push_back(to_string(algorithm));
  std::vector<Algorithm> all;
  for (const std::string& part : bench::split_list(list)) {
    const auto found = std::ranges::find_if(
        names, [&](std::string_view name) { return folded(name) == folded(part); });
    if (found == names.end())
      return fail(ErrorKind::invalid_argument, "{}",
                  unknown_word(fmt::format("{} algorithm", to_string(kind)), part, names));
    all.push_back(there_are[static_cast<std::size_t>(found - names.begin())]);
  }
  if (all.empty()) return fail(ErrorKind::invalid_argument, "--algo: expected 'all' or a list");
  return all;
}

/// A name with a '/' or the ending ".net" is a file.
Result<std::string> text_of_network(const std::string& name) {
  if (name.find('/') == std::string::npos && !name.ends_with(".net"))
    return sim::network_text(name);
  auto text = bench::text_in(name, kMostNetworkBytes);
  if (!text) return fail(ErrorKind::invalid_argument, "--net: {}", text.error().message);
  return text;
}

Result<sim::Network> network_of(const std::string& name) {
  const auto text = text_of_network(name);
  CCOLL_TRY(text);
  auto network = sim::parse_network(*text);
  if (!network)
    return fail(ErrorKind::invalid_argument, "--net {}: {}", name, network.error().message);
  return network;
}

Result<Question> question_of(const SimulateWords& words) {
  Question question;
  question.network_name = words.network;
  auto network = network_of(words.network);
  CCOLL_TRY(network);
  question.network = std::move(*network);
  const auto operation = operation_named(words.operation);
  CCOLL_TRY(operation);
  question.operation = *operation;
  auto ranks = ranks_of(words.ranks);
  CCOLL_TRY(ranks);
  question.ranks = std::move(*ranks);
  auto bytes = bytes_of(words.bytes);
  CCOLL_TRY(bytes);
  question.bytes = std::move(*bytes);
  // Without data there is only one size.
  if (!question.operation->has_data) question.bytes = {1};
  auto algorithms = algorithms_of(words.algorithms, *question.operation->kind);
  CCOLL_TRY(algorithms);
  question.algorithms = std::move(*algorithms);
  const auto types = bench::parse_types(words.type);
  CCOLL_TRY(types);
  if (types->size() != 1)
    return fail(ErrorKind::invalid_argument, "--dtype {}: expected one type", words.type);
  question.type = types->front();
  for (const Rank size : question.ranks) {
    const auto root = root_of(words.root, *question.operation, size);
    CCOLL_TRY(root);
    question.root = *root;
  }
  return question;
}

std::string networks_text() {
  std::string text = "Networks for --net:\n";
  for (const sim::NetworkPreset& preset : sim::network_presets())
    text += fmt::format("  {:<10} {}\n", preset.name, preset.what);
  text += "or put together, as in nodes-of-8:nvlink+8xib200 (eight NICs) and one-node:shm:\n";
  for (const auto& presets : {sim::inside_presets(), sim::across_presets()}) {
    for (const sim::Preset& preset : presets)
      text += fmt::format("  {:<10} {}\n", preset.name, preset.what);
  }
  return text +
         "or a file of one's own (docs/simulation.md); --show-net prints one to begin with.\n";
}

/// Real calls take real time, and a machine has few cores.
SimulateWords for_check(SimulateWords words, bool has_ranks, bool has_bytes) {
  if (words.operation.empty()) words.operation = "all_reduce";
  if (!has_ranks) words.ranks = "2,4,8";
  if (!has_bytes) words.bytes = "8,64K,1M";
  return words;
}

std::string title_of(const Question& question, std::size_t width) {
  return bench::wrapped(
      fmt::format(
          "{}{} on {}, in virtual time until every rank has its result", question.operation->name,
          question.operation->has_data ? fmt::format(" of {}", to_string(question.type)) : "",
          question.network_name),
      width);
}

Result<Output> json_answer(const SimulateWords& words, const Question& question) {
  std::vector<Sheet> sheets;
  for (const Rank ranks : question.ranks) sheets.push_back(simulate_sheet(question, ranks));
  if (words.writes) CCOLL_TRY(bench::write_whole(words.page, study_page(question, sheets)));
  return Output{study_json(question, sheets), 0};
}

/// A table for each number of ranks on demand, because large ones take seconds; then the page.
class Sheets {
 public:
  Sheets(SimulateWords words, Question question)
      : words_(std::move(words)), question_(std::move(question)) {}

  Result<std::string> operator()() {
    if (sheets_.size() < question_.ranks.size()) {
      sheets_.push_back(simulate_sheet(question_, question_.ranks[sheets_.size()]));
      return "\n" + sheet_text(question_, sheets_.back(), bench::columns_of(words_.width));
    }
    if (!std::exchange(words_.writes, false)) return "";
    CCOLL_TRY(bench::write_whole(words_.page, study_page(question_, sheets_)));
    return fmt::format("\nThe same as a page: {}\n", words_.page);
  }

 private:
  SimulateWords words_;
  Question question_;
  std::vector<Sheet> sheets_;
};

Result<Output> simulate(const SimulateWords& words) {
  if (!words.as_rank.empty()) return time_as_rank(words.as_rank);
  if (words.shows_network) {
    const auto network = network_of(words.network);
    CCOLL_TRY(network);
    return Output{fmt::format("# {}\n{}", words.network, sim::to_text(*network)), 0};
  }
  const auto question = question_of(words);
  CCOLL_TRY(question);
  if (words.checks) {
    auto checked = check_simulation(*question);
    if (checked)
      checked->text = bench::wrapped_lines(checked->text, bench::columns_of(words.width));
    return checked;
  }
  if (words.writes) CCOLL_TRY(bench::check_writable(words.page));
  if (words.format == "json") return json_answer(words, *question);
  return Output{title_of(*question, bench::columns_of(words.width)), 0, Sheets(words, *question)};
}

}  // namespace

Action add_simulate(CLI::App& app) {
  const auto words = std::make_shared<SimulateWords>();
  app.add_option("OP", words->operation, "the operation: all_reduce, broadcast, …");
  const auto* ranks =
      app.add_option("-n,--ranks", words->ranks, "numbers of ranks")->capture_default_str();
  const auto* bytes = app.add_option("-b,--bytes", words->bytes,
                                     "sizes as cc-bench counts them; 8..1G: each four times the "
                                     "one before")
                          ->capture_default_str();
  auto* net = app.add_option("--net", words->network, "the network: a name, or a file of one's own")
                  ->capture_default_str();
  app.add_option("-a,--algo", words->algorithms, "'all', or some algorithms")
      ->capture_default_str();
  app.add_option("--dtype", words->type, "the elements' type")->capture_default_str();
  app.add_option("--root", words->root, "the root, where the operation has one (default: 0)");
  auto* page = app.add_option("-o,--output", words->page,
                              "writes a page with curves and tables, like sim.html");
  auto* format = app.add_option("--format", words->format, "what to print: text or json")
                     ->check(CLI::IsMember({"text", "json"}))
                     ->capture_default_str();
  app.add_flag("--show-net", words->shows_network,
               "prints the network and where its numbers are from, as a file for --net");
  app.add_flag("--check", words->checks,
               "compares with real calls of 2 to 8 ranks here (-n 2,4,8 -b 8,64K,1M)")
      ->excludes(net)
      ->excludes(page)
      ->excludes(format);
  bench::add_width_option(app, words->width);
  // The option has no group, so the help omits it: people do not need it.
  app.add_option(kAsRankOption, words->as_rank)->group("");
  app.footer(networks_text());
  return [words, ranks, bytes, page]() {
    words->writes = page->count() > 0;
    return simulate(words->checks ? for_check(*words, ranks->count() > 0, bytes->count() > 0)
                                  : *words);
  };
}

}  // namespace ccoll::show
