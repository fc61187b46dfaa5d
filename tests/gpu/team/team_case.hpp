// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Random calls of a team.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "gpu/program/lower.hpp"
#include "support/hosts.hpp"

namespace ccoll::test {

/// " 0 2 1"
template <typename Number>
std::string listed(const std::vector<Number>& numbers) {
  std::string text;
  for (const Number number : numbers) {
    text += ' ';
    text += std::to_string(number);
  }
  return text;
}

struct TeamCase {
  const CatalogueEntry* entry = nullptr;
  Problem problem;
  Choice choice;
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  std::vector<bool> in_place;          ///< by rank
  std::vector<std::uint32_t> devices;  ///< by rank; empty: one for all
  std::uint64_t tiny_bytes = device::kTinyBytes;

  std::string text() const {
    return fmt::format(
        "{} by {}, {} ranks, root {}, count {}{}, {} lanes, slices of {}, {} {}, {}, on{}",
        to_string(problem.kind), to_string(choice.algorithm), problem.size, problem.root,
        problem.count, problem.block_counts.empty() ? "" : " ragged", choice.lanes,
        choice.slice_elems, to_string(op), to_string(type),
        tiny_bytes == 0 ? "no words" : "words where tiny",
        devices.empty() ? " one GPU" : listed(devices));
  }
  device::LowerRequest request() const {
    const auto schedule = [whole = problem, made = choice](Rank rank) {
      return make_program(view_of(whole, rank), made, rank);
    };
    device::LowerRequest made{problem, choice, schedule, type, op, in_place};
    made.devices = devices;
    made.tiny_bytes = tiny_bytes;
    return made;
  }
  device::LoweredTeam lowered() const { return device::lower(request()).value(); }
};

/// Uses float32 in one lane, with nothing in place.
inline TeamCase case_of(Kind kind, Algorithm algorithm, Rank size, std::uint64_t count,
                        std::uint64_t slice_elems) {
  TeamCase made;
  made.problem.kind = kind;
  made.problem.size = size;
  made.problem.count = count;
  made.choice = {algorithm, 1, slice_elems};
  made.type = DataType::float32;
  made.in_place.assign(size, false);
  return made;
}

/// A small count, or one that makes several windows of several vectors.
inline std::uint64_t random_count(std::mt19937_64& random) {
  return random() % 3 == 0 ? random() % 2000 : random() % 40;
}

inline TeamCase random_case(const CatalogueEntry& entry, Rank size, std::mt19937_64& random) {
  TeamCase made;
  made.entry = &entry;
  made.problem.kind = entry.kind;
  made.problem.size = size;
  made.problem.root = static_cast<Rank>(random() % made.problem.size);
  made.problem.count = entry.kind == Kind::barrier ? 1 : random_count(random);
  if (entry.by_host) made.problem.host_of = testing::random_hosts(made.problem.size, random);
  const std::size_t n = made.problem.size;
  const std::size_t blocks = entry.kind == Kind::all_to_all ? n * n : n;
  if (entry.ragged && random() % 2 == 0) {
    for (std::size_t i = 0; i < blocks; i++)
      made.problem.block_counts.push_back(random() % 4 == 0 ? 0 : random_count(random));
  }
  made.choice.algorithm = entry.algorithm;
  made.choice.lanes = static_cast<std::uint16_t>(1 + random() % 2);
  std::uint64_t largest = made.problem.count;
  for (const auto count : made.problem.block_counts) largest = std::max(largest, count);
  made.choice.slice_elems = 1 + largest / 30 + random() % (largest > 100 ? 700 : 12);
  if (random() % 4 == 0) made.choice.slice_elems = 4096;  // one window
  made.type = kDataTypes[random() % kDataTypes.size()];
  do made.op = kReduceOps[random() % kReduceOps.size()];
  while (!is_defined(made.op, made.type));
  if (entry.kind == Kind::barrier) made.type = DataType::uint8, made.op = ReduceOp::bit_or;
  if (random() % 3 == 0) made.tiny_bytes = 0;
  for (Rank rank = 0; rank < n; rank++)
    made.in_place.push_back(may_be_in_place(entry.kind) && random() % 3 == 0);
  return made;
}

inline TeamCase random_case(const CatalogueEntry& entry, std::mt19937_64& random) {
  return random_case(entry, static_cast<Rank>(1 + random() % 8), random);
}

/// Puts ranks on up to `devices` devices in any order; some may have none.
inline void spread(TeamCase& over, std::uint32_t devices, std::mt19937_64& random) {
  over.devices.clear();
  for (Rank rank = 0; rank < over.problem.size; rank++)
    over.devices.push_back(static_cast<std::uint32_t>(random() % devices));
}

/// Cases of `size` ranks that cover every pair of algorithm, type, operation, ragged blocks, a rank
/// in place, and lanes: those of a long random sequence that add a new pair.
inline std::vector<TeamCase> pairwise_cover(Rank size, std::mt19937_64& random) {
  std::set<std::array<std::size_t, 4>> seen;
  std::vector<TeamCase> cases;
  const auto entries = catalogue();
  for (std::size_t vain = 0, at = 0; vain < 200 * entries.size(); ++at) {
    const auto made = random_case(entries[at % entries.size()], size, random);
    const bool in_place = std::ranges::count(made.in_place, true) != 0;
    const std::size_t values[] = {at % entries.size(),
                                  static_cast<std::size_t>(made.type),
                                  static_cast<std::size_t>(made.op),
                                  made.problem.block_counts.empty() ? 0U : 1U,
                                  in_place ? 1U : 0U,
                                  made.choice.lanes};
    std::size_t fresh = 0;
    for (std::size_t a = 0; a < std::size(values); ++a) {
      for (std::size_t b = 0; b < a; ++b) fresh += seen.insert({a, values[a], b, values[b]}).second;
    }
    vain = fresh == 0 ? vain + 1 : 0;
    if (fresh != 0) cases.push_back(made);
  }
  return cases;
}

}  // namespace ccoll::test
