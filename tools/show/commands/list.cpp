// SPDX-License-Identifier: Apache-2.0
#include "show/commands/list.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <vector>

#include "core/text.hpp"
#include "show/model/call.hpp"

namespace ccoll::show {

namespace {

std::string table(const bench::Operation& operation, const Problem& problem) {
  std::string text = fmt::format("{}: {}\n", operation.name, operation.meaning);
  text += fmt::format("{} rank{}", problem.size, problem.size == 1 ? "" : "s");
  if (operation.has_data) {
    text += fmt::format(", {} elements{}", problem.count,
                        divides_whole_buffer(problem.kind) ? "" : " in each rank's block");
  }
  text += fmt::format("\n\n  {:<20}{:>8}{:>10}{:>16}{:>16}   {}\n", "algorithm", "rounds",
                      "messages", "elements sent", "combined", "source");
  bool knows_hosts = false;
  for (const CatalogueEntry& entry : catalogue()) {
    if (entry.kind != problem.kind) continue;
    const Theory theory = entry.theory(problem);
    text += fmt::format("  {:<20}{:>8}{:>10}{:>16}{:>16}   {}\n",
                        fmt::format("{}{}", to_string(entry.algorithm), entry.by_host ? " *" : ""),
                        theory.depth, theory.busiest.messages, theory.busiest.elems_sent,
                        theory.busiest.elems_reduced, entry.source);
    knows_hosts |= entry.by_host;
  }
  text +=
      "\nRounds are messages that must come one after another. Messages and elements sent are the\n"
      "busiest rank's, and so are the elements that it combines with others; messages are those "
      "of\n"
      "one window, for a large buffer passes in many.\n";
  if (knows_hosts) {
    text += "* For ranks on several hosts: --hosts 4,4 says how many are on each.\n";
  }
  return text;
}

}  // namespace

Action add_list(CLI::App& app) {
  const auto words = std::make_shared<CallWords>();
  words->ranks = 8;
  words->count = 1 << 20;
  add_problem_options(app, *words, kMostRanks);
  return [words]() -> Result<Output> {
    if (words->operation.empty()) return Output{operations_text(), 0};
    const auto call = call_of(*words);
    CCOLL_TRY(call);
    return Output{table(*call->operation, call->problem), 0};
  };
}

std::string operations_text() {
  std::string text;
  for (const bench::Operation& operation : bench::operations()) {
    if (!operation.kind || operation.ragged) continue;
    std::vector<std::string_view> names;
    for (const Algorithm each : algorithms_for(*operation.kind)) names.push_back(to_string(each));
    text +=
        fmt::format("  {:<16}{}\n{:18}{}\n", operation.name, operation.meaning, "", joined(names));
  }
  return text;
}

}  // namespace ccoll::show
