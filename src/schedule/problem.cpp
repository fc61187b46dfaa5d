// SPDX-License-Identifier: Apache-2.0
#include "schedule/problem.hpp"

#include <algorithm>

namespace ccoll {
namespace {

/// Whether `count` is the size of the whole buffer, which the blocks divide, or of one block.
bool divides_whole_buffer(Kind kind) {
  switch (kind) {
    case Kind::all_reduce:
    case Kind::reduce:
    case Kind::broadcast:
    case Kind::barrier:
      return true;
    case Kind::all_gather:
    case Kind::reduce_scatter:
    case Kind::all_to_all:
    case Kind::gather:
    case Kind::scatter:
      return false;
  }
  return false;
}

std::uint64_t largest_block(const Problem& problem, std::uint32_t blocks) {
  if (divides_whole_buffer(problem.kind)) {
    return problem.count / blocks + (problem.count % blocks != 0 ? 1 : 0);
  }
  if (problem.block_counts.empty()) return problem.count;
  return *std::max_element(problem.block_counts.begin(), problem.block_counts.end());
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
  }
  return "unknown";
}

std::uint64_t block_elems(const Problem& problem, std::uint32_t blocks, std::uint32_t block) {
  if (divides_whole_buffer(problem.kind)) {
    return problem.count / blocks + (block < problem.count % blocks ? 1 : 0);
  }
  return problem.block_counts.empty() ? problem.count : problem.block_counts[block];
}

std::uint64_t block_offset(const Problem& problem, std::uint32_t blocks, std::uint32_t block) {
  if (divides_whole_buffer(problem.kind)) {
    const std::uint64_t longer = std::min<std::uint64_t>(block, problem.count % blocks);
    return block * (problem.count / blocks) + longer;
  }
  if (problem.block_counts.empty()) return block * problem.count;
  std::uint64_t offset = 0;
  for (std::uint32_t before = 0; before < block; ++before) offset += problem.block_counts[before];
  return offset;
}

std::uint64_t window_count(const Problem& problem, std::uint32_t blocks, const Choice& choice) {
  const std::uint64_t largest = largest_block(problem, blocks);
  return largest / choice.slice_elems + (largest % choice.slice_elems != 0 ? 1 : 0);
}

Slice slice_of(const Problem& problem, std::uint32_t blocks, std::uint32_t block,
               std::uint64_t window, const Choice& choice) {
  const std::uint64_t elems = block_elems(problem, blocks, block);
  // Compared by division first: window × slice_elems may not fit 64 bits.
  if (window > elems / choice.slice_elems) return {elems, 0};
  const std::uint64_t first = window * choice.slice_elems;
  return {first, std::min(choice.slice_elems, elems - first)};
}

}  // namespace ccoll
