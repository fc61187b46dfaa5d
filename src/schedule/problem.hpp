// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What is to be done (Problem) and how (Choice): the two arguments of every algorithm. Both depend
/// only on facts that all ranks share. Knows no rank's own buffers.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ccoll {

using Rank = std::uint32_t;

enum class Kind : std::uint8_t {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  all_to_all,
  gather,
  scatter,
  barrier,
};

enum class Algorithm : std::uint8_t {
  ring,
  tree,
  double_tree,
  recursive_doubling,
  one_shot,
  two_shot,
  pairwise,
  linear,
  binomial,
  dissemination,
};

std::string_view to_string(Kind kind);
std::string_view to_string(Algorithm algorithm);

/// A collective over `size` ranks.
///
/// `count` is in elements: of the whole buffer for all_reduce, reduce and broadcast; of one block
/// (one rank's contribution or share) for the others. A barrier is an idempotent all_reduce of one
/// byte: count 1.
struct Problem {
  Kind kind = Kind::all_reduce;
  Rank size = 1;
  Rank root = 0;  ///< reduce, broadcast, gather, scatter
  std::uint64_t count = 0;
  /// Ragged blocks (v-operations): elements of block b, `size` of them; empty when all are `count`.
  std::vector<std::uint64_t> block_counts;
  /// Which host each rank is on, for two-level algorithms; empty when there is one host.
  std::vector<std::uint32_t> host_of;

  friend bool operator==(const Problem&, const Problem&) = default;
};

struct Choice {
  Algorithm algorithm = Algorithm::ring;
  /// Copies of the algorithm's lanes; copy s of L takes windows s, s + L, s + 2L, …
  std::uint16_t lanes = 1;
  /// Elements of one block that one window covers, at least 1.
  std::uint64_t slice_elems = 1;

  friend bool operator==(const Choice&, const Choice&) = default;
};

/// Elements of block `block` (0 ≤ block < blocks) when the operation's buffer is cut into `blocks`
/// parts: for all_reduce, reduce, broadcast and barrier `count` is divided evenly, the first
/// `count % blocks` parts one longer; for the others it is the block's own size.
std::uint64_t block_elems(const Problem& problem, std::uint32_t blocks, std::uint32_t block);

/// Elements before block `block` in a buffer that holds all blocks one after another.
std::uint64_t block_offset(const Problem& problem, std::uint32_t blocks, std::uint32_t block);

/// Windows of a pass over blocks of these sizes: ceil(largest block / slice_elems); 0 when all
/// blocks are empty.
std::uint64_t window_count(const Problem& problem, std::uint32_t blocks, const Choice& choice);

/// The part of block `block` that window `window` covers: elements [first, first + elems) of the
/// block. `elems` is 0 beyond its end.
struct Slice {
  std::uint64_t first;
  std::uint64_t elems;
};
Slice slice_of(const Problem& problem, std::uint32_t blocks, std::uint32_t block,
               std::uint64_t window, const Choice& choice);

}  // namespace ccoll
