// SPDX-License-Identifier: Apache-2.0
#include "algorithms/trees/binary_tree.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <set>

#include "algorithms/algorithms.hpp"
#include "support/effort.hpp"

namespace ccoll {
namespace {

using TreeRule = TreeNode (*)(Rank rank, Rank size);

bool has_child(const TreeNode& node, Rank rank) {
  return std::find(node.children.begin(), node.children.end(), rank) != node.children.end();
}

TEST_CASE("parents and children of both trees agree, and one rank has no parent",
          "[algorithms][property]") {
  for (const TreeRule tree : {TreeRule{binary_tree}, TreeRule{complementary_tree}}) {
    for (Rank size = 1; size <= (testing::reduced() ? 100U : 600U); ++size) {
      Rank roots = 0;
      bool agree = true;
      for (Rank rank = 0; rank < size; ++rank) {
        const TreeNode node = tree(rank, size);
        roots += node.parent ? 0 : 1;
        if (node.parent) agree &= has_child(tree(*node.parent, size), rank);
        for (const Rank child : node.children) {
          agree &= child < size && tree(child, size).parent == rank;
        }
        agree &= node.children.size() <= most_children(size);
      }
      INFO("size " << size);
      CHECK(agree);
      CHECK(roots == 1);
    }
  }
}

TEST_CASE("the trees are as deep as their formula", "[algorithms]") {
  for (Rank size = 1; size <= (testing::reduced() ? 100U : 600U); ++size) {
    std::uint32_t deepest = 0;
    for (Rank rank = 0; rank < size; ++rank) {
      std::uint32_t depth = 0;
      for (auto up = binary_tree(rank, size).parent; up; up = binary_tree(*up, size).parent) {
        ++depth;
      }
      deepest = std::max(deepest, depth);
    }
    INFO("size " << size);
    CHECK(deepest == tree_height(size));
  }
}

TEST_CASE("no rank is an inner node of both trees, but rank 0 of an odd number",
          "[algorithms][property]") {
  for (Rank size = 2; size <= (testing::reduced() ? 100U : 600U); ++size) {
    std::set<Rank> inner;
    for (Rank rank = 0; rank < size; ++rank) {
      if (!binary_tree(rank, size).children.empty() &&
          !complementary_tree(rank, size).children.empty()) {
        inner.insert(rank);
      }
    }
    INFO("size " << size);
    CHECK(inner == (size % 2 == 0 ? std::set<Rank>{} : std::set<Rank>{0}));
  }
}

/// The growing parts of a rank's program: steps, and their peers.
std::size_t extent(const Program& program) {
  std::size_t extent = 0;
  for (const Lane& lane : program.lanes) {
    for (const Step& step : lane.steps) extent += 1 + step.receives.size() + step.sends.size();
  }
  return extent;
}

TEST_CASE("one rank's program of a tree stays small and quick to make among a million",
          "[algorithms]") {
  const std::pair<Kind, Algorithm> kTrees[] = {
      {Kind::all_reduce, Algorithm::double_tree}, {Kind::all_reduce, Algorithm::tree},
      {Kind::broadcast, Algorithm::double_tree},  {Kind::reduce, Algorithm::double_tree},
      {Kind::broadcast, Algorithm::binomial},     {Kind::all_reduce, Algorithm::recursive_doubling},
      {Kind::barrier, Algorithm::dissemination},
  };
  for (const auto& [kind, algorithm] : kTrees) {
    for (const Rank size : {24576U, 1000000U}) {
      Problem problem;
      problem.kind = kind;
      problem.size = size;
      problem.count = 1 << 20;
      std::size_t largest = 0;
      constexpr int kPrograms = 1000;
      const auto start = std::chrono::steady_clock::now();
      for (Rank i = 0; i < kPrograms; ++i) {
        const Rank rank = static_cast<Rank>(std::uint64_t{i} * 7919 % size);
        largest = std::max(largest, extent(make_program(problem, {algorithm, 1, 1 << 15}, rank)));
      }
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      INFO(to_string(algorithm) << " " << to_string(kind) << " over " << size);
      CHECK(largest <= (algorithm == Algorithm::double_tree ? 16U : 64U));
      // A microsecond or two each; the limit leaves room for sanitizers and a busy machine.
      CHECK(taken.count() < 1.0);
    }
  }
}

}  // namespace
}  // namespace ccoll
