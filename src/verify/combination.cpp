// SPDX-License-Identifier: Apache-2.0
#include "verify/combination.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace ccoll::detail {
namespace {

std::uint64_t hash_of(std::span<const Expression> sources, bool finish) {
  std::uint64_t hash = finish ? 0x9e3779b97f4a7c15U : 0x2545f4914f6cdd1dU;
  for (const Expression source : sources) {
    hash = (hash ^ source) * 0xff51afd7ed558ccdU;
    hash ^= hash >> 29;
  }
  return hash;
}

std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) {
  return a > std::numeric_limits<std::uint64_t>::max() - b
             ? std::numeric_limits<std::uint64_t>::max()
             : a + b;
}

}  // namespace

Combinations::Combinations(Rank size) : size_(size), nodes_(size), table_(64, kUndefined) {}

Expression Combinations::combine(std::span<const Expression> sources, bool finish) {
  if (sources.size() == 1 && !finish) return sources[0];
  canonical_.assign(sources.begin(), sources.end());
  if (canonical_.size() > 1 && canonical_[0] > canonical_[1]) {
    std::swap(canonical_[0], canonical_[1]);
  }
  const std::size_t mask = table_.size() - 1;
  std::size_t slot = hash_of(canonical_, finish) & mask;
  for (; table_[slot] != kUndefined; slot = (slot + 1) & mask) {
    const Node& node = nodes_[table_[slot]];
    if (node.finished == finish && std::ranges::equal(sources_of(node), canonical_)) {
      return table_[slot];
    }
  }
  const Expression added = add(canonical_, finish);
  table_[slot] = added;
  if ((nodes_.size() - size_) * 2 > table_.size()) grow();
  return added;
}

Expression Combinations::add(std::span<const Expression> sources, bool finish) {
  Node node;
  node.begin = static_cast<std::uint32_t>(sources_.size());
  node.leaves = 0;
  for (const Expression source : sources) {
    sources_.push_back(source);
    node.leaves = saturating_add(node.leaves, nodes_[source].leaves);
    node.roundings = std::max(node.roundings, nodes_[source].roundings);
  }
  node.end = static_cast<std::uint32_t>(sources_.size());
  node.finished = finish;
  // To finish a lone contribution is a division by one.
  if (sources.size() > 1 || sources[0] >= size_) ++node.roundings;
  nodes_.push_back(node);
  return static_cast<Expression>(nodes_.size() - 1);
}

void Combinations::grow() {
  table_.assign(table_.size() * 2, kUndefined);
  const std::size_t mask = table_.size() - 1;
  for (Expression expression = size_; expression < nodes_.size(); ++expression) {
    const Node& node = nodes_[expression];
    std::size_t slot = hash_of(sources_of(node), node.finished) & mask;
    while (table_[slot] != kUndefined) slot = (slot + 1) & mask;
    table_[slot] = expression;
  }
}

bool Combinations::has_all(Expression expression, bool exactly_once) {
  const std::int8_t known = nodes_[expression].all[exactly_once ? 1 : 0];
  if (known >= 0) return known == 1;
  const std::uint64_t leaves = nodes_[expression].leaves;
  const bool possible = exactly_once ? leaves == size_ : leaves >= size_;
  const bool all = possible && reaches_all(expression);
  nodes_[expression].all[exactly_once ? 1 : 0] = all ? 1 : 0;
  return all;
}

/// Visits each node below once. If there are as many different leaves as ranks, all are there. If
/// the number of leaves is that too, each is there once.
bool Combinations::reaches_all(Expression expression) {
  seen_.resize(nodes_.size(), 0);
  ++walks_;
  Rank leaves = 0;
  stack_.assign(1, expression);
  while (!stack_.empty()) {
    const Expression at = stack_.back();
    stack_.pop_back();
    if (std::exchange(seen_[at], walks_) == walks_) continue;
    if (at < size_) {
      ++leaves;
      continue;
    }
    for (const Expression source : sources_of(nodes_[at])) stack_.push_back(source);
  }
  return leaves == size_;
}

/// Goes from the expression down, because sources have lower numbers.
std::vector<std::uint64_t> Combinations::multiplicities(Expression expression) const {
  std::vector<std::uint64_t> times(expression + std::size_t{1}, 0);
  times[expression] = 1;
  for (Expression at = expression; at >= size_; --at) {
    if (times[at] == 0) continue;
    for (const Expression source : sources_of(nodes_[at])) {
      times[source] = saturating_add(times[source], times[at]);
    }
  }
  times.resize(size_, 0);
  return times;
}

std::string Combinations::text(Expression expression) const {
  if (expression < size_) return fmt::format("{}", expression);
  std::string text;
  for (const Expression source : sources_of(expression)) {
    if (!text.empty()) text += '+';
    text += source < size_ ? this->text(source) : fmt::format("({})", this->text(source));
  }
  return text;
}

std::string Combinations::describe(Expression expression) const {
  const std::vector<std::uint64_t> times = multiplicities(expression);
  std::string once;
  std::string more;
  std::string missing;
  for (Rank rank = 0; rank < size_; ++rank) {
    if (times[rank] == 1) once += fmt::format(" {}", rank);
    if (times[rank] > 1) more += fmt::format(", {} times from rank {}", times[rank], rank);
    if (times[rank] == 0) missing += fmt::format(" {}", rank);
  }
  std::string text =
      once.empty() ? std::string("no rank once") : fmt::format("once from rank{}", once);
  text += more;
  if (!missing.empty()) text += fmt::format(", none from rank{}", missing);
  return text;
}

}  // namespace ccoll::detail
