// SPDX-License-Identifier: Apache-2.0
#include "schedule/problem.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace ccoll {
namespace {

const std::vector<std::uint64_t>& counts_of(const Problem& problem, Buffer buffer) {
  const bool received = buffer == Buffer::output && !problem.output_counts.empty();
  return received ? problem.output_counts : problem.block_counts;
}

std::uint64_t largest_of(const std::vector<std::uint64_t>& counts) {
  return counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
}

std::uint64_t largest_block(const Problem& problem, std::uint32_t blocks) {
  if (divides_whole_buffer(problem.kind)) {
    return problem.count / blocks + (problem.count % blocks != 0 ? 1 : 0);
  }
  if (problem.block_counts.empty()) return problem.count;
  return std::max(largest_of(problem.block_counts), largest_of(problem.output_counts));
}

}  // namespace

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::all_reduce:
      return "all_reduce";
    case Kind::reduce:
      return "reduce";
    case Kind::broadcast:
      return "broadcast";
    case Kind::all_gather:
      return "all_gather";
    case Kind::reduce_scatter:
      return "reduce_scatter";
    case Kind::all_to_all:
      return "all_to_all";
    case Kind::gather:
      return "gather";
    case Kind::scatter:
      return "scatter";
    case Kind::barrier:
      return "barrier";
  }
  return "unknown";
}

std::string_view to_string(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::ring:
      return "ring";
    case Algorithm::tree:
      return "tree";
    case Algorithm::double_tree:
      return "double_tree";
    case Algorithm::recursive_doubling:
      return "recursive_doubling";
    case Algorithm::one_shot:
      return "one_shot";
    case Algorithm::two_shot:
      return "two_shot";
    case Algorithm::pairwise:
      return "pairwise";
    case Algorithm::linear:
      return "linear";
    case Algorithm::binomial:
      return "binomial";
    case Algorithm::dissemination:
      return "dissemination";
    case Algorithm::recursive_halving:
      return "recursive_halving";
    case Algorithm::bruck:
      return "bruck";
    case Algorithm::root_collects:
      return "root_collects";
    case Algorithm::leaders:
      return "leaders";
    case Algorithm::two_level:
      return "two_level";
  }
  return "unknown";
}

bool sizes_are_private(const Problem& problem) {
  return !problem.block_counts.empty() && sizes_are_private(problem.kind);
}

bool sizes_are_private(Kind kind) {
  return kind == Kind::gather || kind == Kind::scatter || kind == Kind::all_to_all;
}

Problem evenly_ragged(Problem problem) {
  problem.block_counts.assign(problem.size, problem.count);
  if (problem.kind == Kind::all_to_all) problem.output_counts = problem.block_counts;
  return problem;
}

Problem view_of(const Problem& whole, Rank rank) {
  Problem view = whole;
  if (!sizes_are_private(whole)) return view;
  if (whole.kind == Kind::all_to_all) {
    const std::size_t n = whole.size;
    const auto row = whole.block_counts.begin() + static_cast<std::ptrdiff_t>(rank * n);
    view.block_counts.assign(row, row + static_cast<std::ptrdiff_t>(n));
    for (std::size_t from = 0; from < n; ++from) {
      view.output_counts.push_back(whole.block_counts[from * n + rank]);
    }
  } else if (rank != whole.root) {
    view.block_counts.assign(whole.size, 0);
    view.block_counts[rank] = whole.block_counts[rank];
  }
  return view;
}

std::uint64_t block_elems(const Problem& problem, std::uint32_t blocks, std::uint32_t block,
                          Buffer buffer) {
  if (divides_whole_buffer(problem.kind)) {
    return problem.count / blocks + (block < problem.count % blocks ? 1 : 0);
  }
  return problem.block_counts.empty() ? problem.count : counts_of(problem, buffer)[block];
}

std::uint64_t block_offset(const Problem& problem, std::uint32_t blocks, std::uint32_t block,
                           Buffer buffer) {
  if (divides_whole_buffer(problem.kind)) {
    const std::uint64_t longer = std::min<std::uint64_t>(block, problem.count % blocks);
    return block * (problem.count / blocks) + longer;
  }
  if (problem.block_counts.empty()) return block * problem.count;
  const std::vector<std::uint64_t>& counts = counts_of(problem, buffer);
  return std::accumulate(counts.begin(), counts.begin() + block, std::uint64_t{0});
}

std::uint64_t window_count(const Problem& problem, std::uint32_t blocks, const Choice& choice) {
  const std::uint64_t largest = largest_block(problem, blocks);
  return largest / choice.slice_elems + (largest % choice.slice_elems != 0 ? 1 : 0);
}

Slice slice_of(const Problem& problem, std::uint32_t blocks, std::uint32_t block,
               std::uint64_t window, const Choice& choice, Buffer buffer) {
  const std::uint64_t elems = block_elems(problem, blocks, block, buffer);
  // Compare by division first: window × slice_elems may not fit 64 bits.
  if (window > elems / choice.slice_elems) return {elems, 0};
  const std::uint64_t first = window * choice.slice_elems;
  return {first, std::min(choice.slice_elems, elems - first)};
}

}  // namespace ccoll
