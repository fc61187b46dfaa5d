// SPDX-License-Identifier: Apache-2.0
// Checks keeps_order() of each algorithm against the verifier's analysis of its programs. (Orders
// by rank are tested with real non-commutative reductions:
// tests/comm/api/custom_reduction_test.cpp.)
#include <algorithm>
#include <catch2/catch.hpp>

#include "algorithms/sweep.hpp"

namespace ccoll::test {
namespace {

/// "0+1+2": one step combines all.
std::string in_one_step(Rank size) {
  std::string text = "0";
  for (Rank rank = 1; rank < size; ++rank) text += fmt::format("+{}", rank);
  return text;
}

/// Whether every element of every result is combined so, for all sizes that a schedule must
/// support.
bool is_at_once(const CatalogueEntry& entry, Problem problem) {
  const std::uint32_t blocks = problem.size == 1 ? 1 : entry.theory(problem).blocks;
  for (VerifyCase& one :
       verify_cases(entry.kind, entry.algorithm, problem.size, problem.root, blocks)) {
    if (!one.problem.block_counts.empty() && !entry.ragged) continue;
    one.problem.host_of = problem.host_of;
    const Report report = verify(one.problem, one.choice, [&](Rank rank) {
      return make_program(view_of(one.problem, rank), one.choice, rank);
    });
    REQUIRE(report.ok());
    for (const std::string& order : report.orders)
      if (!order.empty() && order != in_one_step(problem.size)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("combine order: an algorithm that combines at once does, whatever is reduced",
          "[algorithms][property]") {
  int at_once = 0, otherwise = 0;
  for (const CatalogueEntry& entry : catalogue()) {
    if (!reduces(entry.kind) || entry.kind == Kind::barrier) continue;
    for (Rank size = 1; size <= 9; ++size) {
      Problem problem;
      problem.kind = entry.kind;
      problem.size = size;
      problem.count = 1;
      for (Rank rank = 0; entry.by_host && rank < size; ++rank)
        problem.host_of.push_back(rank * 2 / size);
      for (const Rank root : roots_of(entry.kind, size)) {
        problem.root = root;
        CAPTURE(name_of(entry), size, root);
        if (keeps_order(problem, entry.algorithm, CombineOrder::at_once)) {
          ++at_once;
          CHECK(is_at_once(entry, problem));
          CHECK(keeps_order(problem, entry.algorithm, CombineOrder::by_rank));
        } else if (!is_at_once(entry, problem)) {
          ++otherwise;
        }
      }
    }
  }
  CHECK(at_once > 100);
  CHECK(otherwise > 100);
}

TEST_CASE("combine order: every reduction of every number of ranks has an algorithm for each",
          "[algorithms][property]") {
  for (const Kind kind : {Kind::all_reduce, Kind::reduce, Kind::reduce_scatter}) {
    for (const Rank size : {1, 2, 3, 7, 64, 1000}) {
      Problem problem;
      problem.kind = kind;
      problem.size = size;
      problem.root = size / 2;
      problem.count = 1000;
      for (const auto order : {CombineOrder::any, CombineOrder::by_rank, CombineOrder::at_once}) {
        CAPTURE(kind, size, static_cast<int>(order));
        Forced forced;
        forced.order = order;
        const Chosen chosen = choose(problem, 4, {}, forced);
        CHECK(keeps_order(problem, chosen.choice.algorithm, order));
      }
    }
  }
}

}  // namespace ccoll::test
