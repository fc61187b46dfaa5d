// SPDX-License-Identifier: Apache-2.0
#include "show/commands/list.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bench/command/columns.hpp"
#include "bench/command/width.hpp"
#include "core/text.hpp"
#include "show/model/call.hpp"
#include "show/text/labels.hpp"

namespace ccoll::show {

namespace {

/// The number of sequential messages, and the busiest rank's work.
std::string table(const bench::Operation& operation, const Problem& problem, std::size_t width) {
  using Align = bench::TextTable::Align;
  bench::TextTable costs(
      {{"algorithm", Align::left}, {"depth"}, {"messages"}, {"elements sent"}, {"combined"}});
  std::vector<std::pair<std::string, std::string_view>> sources;
  bool knows_hosts = false;
  for (const CatalogueEntry& entry : catalogue()) {
    if (entry.kind != problem.kind) continue;
    const Theory theory = entry.theory(problem);
    std::string name = fmt::format("{}{}", to_string(entry.algorithm), entry.by_host ? " *" : "");
    costs.add({name, grouped(theory.depth), grouped(theory.busiest.messages),
               grouped(theory.busiest.elems_sent), grouped(theory.busiest.elems_reduced)});
    sources.emplace_back(std::move(name), entry.source);
    knows_hosts |= entry.by_host;
  }
  std::string text = fmt::format("{}: {}\n", operation.name, operation.meaning);
  text += fmt::format("{} rank{}", problem.size, problem.size == 1 ? "" : "s");
  if (operation.has_data) {
    text += fmt::format(", {} elements{}", grouped(problem.count),
                        divides_whole_buffer(problem.kind) ? "" : " in each rank's block");
  }
  text += "\n\n" + costs.text(width) + "\n";
  text += bench::wrapped(
      "The depth is how many messages must come one after another. Messages and elements sent are "
      "the busiest rank's, and so are the elements that it combines with others; messages are "
      "those of one window, for a large buffer passes in many.",
      width);
  if (knows_hosts) {
    text += bench::wrapped("* For ranks on several hosts: --hosts 4,4 says how many are on each.",
                           width);
  }
  text += "\nSources:\n";
  for (const auto& [name, source] : sources)
    text += bench::wrapped_beside(fmt::format("  {:<20}", name), source, width);
  return text;
}

struct ListOptions {
  CallWords words;
  std::optional<std::size_t> width;
};

}  // namespace

Action add_list(CLI::App& app) {
  const auto options = std::make_shared<ListOptions>();
  options->words.ranks = 8;
  options->words.count = 1 << 20;
  add_problem_options(app, options->words, kMostRanks);
  bench::add_width_option(app, options->width);
  return [options]() -> Result<Output> {
    const std::size_t width = bench::columns_of(options->width);
    if (options->words.operation.empty()) return Output{operations_text(width), 0};
    const auto call = call_of(options->words);
    CCOLL_TRY(call);
    return Output{table(*call->operation, call->problem, width), 0};
  };
}

std::string operations_text(std::size_t width) {
  std::string text;
  for (const bench::Operation& operation : bench::operations()) {
    if (!operation.kind || operation.ragged) continue;
    std::vector<std::string_view> names;
    for (const Algorithm each : algorithms_for(*operation.kind)) names.push_back(to_string(each));
    text +=
        bench::wrapped_beside(fmt::format("  {:<16}", operation.name), operation.meaning, width);
    text += bench::wrapped(joined(names), width, std::string(18, ' '));
  }
  return text + "\n" +
         bench::wrapped("What each algorithm costs: cc-show list OP, like cc-show list all_reduce.",
                        width);
}

}  // namespace ccoll::show
