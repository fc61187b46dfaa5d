// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Shared by the sweeps: the roots and cases, and one entry's verdict at one n.

#include <fmt/format.h>

#include <set>
#include <string>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "support/hosts.hpp"
#include "verify/verify.hpp"

namespace ccoll::test {

inline bool is_rooted(Kind kind) {
  return kind == Kind::broadcast || kind == Kind::reduce || kind == Kind::gather ||
         kind == Kind::scatter;
}

/// Every root up to 16 ranks; the first two, the middle and the last beyond.
inline std::vector<Rank> roots_of(Kind kind, Rank size) {
  if (!is_rooted(kind)) return {0};
  std::set<Rank> roots;
  if (size <= 16) {
    for (Rank root = 0; root < size; ++root) roots.insert(root);
  } else {
    roots = {0, 1, size / 2, size - 1};
  }
  return {roots.begin(), roots.end()};
}

inline std::string name_of(const CatalogueEntry& entry) {
  return fmt::format("{} {}", to_string(entry.algorithm), to_string(entry.kind));
}

inline std::string describe(const Problem& problem, const Choice& choice) {
  std::string hosts;
  for (const std::uint32_t host : problem.host_of) hosts += fmt::format(" {}", host);
  return fmt::format("{} {}: size {}, hosts [{} ], root {}, count {}{}, {} lanes, slices of {}",
                     to_string(choice.algorithm), to_string(problem.kind), problem.size, hosts,
                     problem.root, problem.count, problem.block_counts.empty() ? "" : " (ragged)",
                     choice.lanes, choice.slice_elems);
}

/// Empty if the schedule verifies and its measures match the theory; else the error.
inline std::string judge(const CatalogueEntry& entry, const Problem& problem,
                         const Choice& choice) {
  const Report report = verify(problem, choice, [&](Rank rank) {
    return make_program(view_of(problem, rank), choice, rank);
  });
  if (!report.ok()) return describe(problem, choice) + "\n" + report.text();
  const Theory theory = entry.theory(problem);
  bool some_empty = false;
  for (const std::uint64_t elems : problem.block_counts) some_empty |= elems == 0;
  // If some ragged blocks are empty, depth and messages are upper bounds; so is depth if there are
  // fewer elements than blocks.
  const auto fits = [&](std::uint64_t measured, std::uint64_t said) {
    return some_empty ? measured <= said : measured == said;
  };
  const bool few = problem.kind == Kind::all_reduce && problem.count < theory.blocks &&
                   report.depth <= theory.depth;
  if ((fits(report.depth, theory.depth) || few) &&
      fits(report.max_messages, theory.busiest.messages) &&
      report.max_elems_sent == theory.busiest.elems_sent &&
      report.max_blocks_per_message <= theory.blocks_per_message &&
      fits(report.roundings, theory.roundings)) {
    return {};
  }
  return fmt::format(
      "{}\n  measured: depth {}, messages {}, elements {}, blocks per message {}, roundings {}\n"
      "  theory:   depth {}, messages {}, elements {}, blocks per message {}, roundings {}",
      describe(problem, choice), report.depth, report.max_messages, report.max_elems_sent,
      report.max_blocks_per_message, report.roundings, theory.depth, theory.busiest.messages,
      theory.busiest.elems_sent, theory.blocks_per_message, theory.roundings);
}

/// All cases of one entry at one size, root and layout of hosts; returns the first error, or "".
inline std::string judge_all(const CatalogueEntry& entry, Rank size, Rank root,
                             const testing::HostOf& hosts) {
  Problem problem;
  problem.host_of = hosts;
  problem.kind = entry.kind;
  problem.size = size;
  problem.root = root;
  problem.count = 1;
  const std::uint32_t blocks = entry.theory(problem).blocks;
  for (VerifyCase& one : verify_cases(entry.kind, entry.algorithm, size, root, blocks)) {
    if (!one.problem.block_counts.empty() && !entry.ragged) continue;
    one.problem.host_of = problem.host_of;
    const std::string wrong = judge(entry, one.problem, one.choice);
    if (!wrong.empty()) return fmt::format("case {}: {}", one.name, wrong);
  }
  return {};
}

}  // namespace ccoll::test
