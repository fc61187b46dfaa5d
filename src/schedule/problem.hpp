// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The task (Problem) and the way to do it (Choice): the two arguments of every algorithm. Both
/// depend only on facts that all ranks share, and not on a rank's own buffers.

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
  recursive_halving,
  bruck,
  root_collects,
  leaders,
  two_level,
};

/// `input` is never written. `scratch` belongs to one lane of one rank.
///
/// Places of a kind's block b:
///   all_reduce, reduce, broadcast, barrier  input and output hold all blocks
///   all_gather, gather                      input holds only block `rank`; output holds all
///   reduce_scatter, scatter                 input holds all blocks; output only block `rank`
///   all_to_all                              input block b goes to rank b, output block b is from b
/// For rooted kinds only the root's input (broadcast, scatter) or output (reduce, gather) exists;
/// broadcast's output exists on every rank.
enum class Buffer : std::uint8_t { input, output, scratch };

/// Whether contributions are combined; a barrier combines them too.
constexpr bool reduces(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter ||
         kind == Kind::barrier;
}
/// Whether a problem's count is the size of the whole buffer, which the blocks divide, or of one
/// block.
constexpr bool divides_whole_buffer(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::broadcast ||
         kind == Kind::barrier;
}
/// Whether an input or output holds only the rank's own block.
constexpr bool holds_own_block_only(Kind kind, Buffer buffer) {
  if (buffer == Buffer::input) return kind == Kind::all_gather || kind == Kind::gather;
  return kind == Kind::reduce_scatter || kind == Kind::scatter;
}
/// Whether only the root has that buffer.
constexpr bool is_roots_alone(Kind kind, Buffer buffer) {
  if (buffer == Buffer::input) return kind == Kind::broadcast || kind == Kind::scatter;
  return kind == Kind::reduce || kind == Kind::gather;
}
/// Whether input block b and output block b of a rank that has both may be the same memory.
constexpr bool may_be_in_place(Kind kind) { return kind != Kind::all_to_all; }

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
  /// Ragged blocks (v-operations): elements of each of the `size` blocks; empty if all have
  /// `count`. For all_to_all they are the input's blocks. See `sizes_are_private`.
  std::vector<std::uint64_t> block_counts;
  /// Ragged all_to_all only: elements of the output's blocks, `size` of them.
  std::vector<std::uint64_t> output_counts;
  /// The host of each rank, for algorithms that know of hosts: numbers from 0 without gaps. Empty
  /// if it makes no difference: one host, or one rank on each.
  std::vector<std::uint32_t> host_of;

  friend bool operator==(const Problem&, const Problem&) = default;
};

/// Whether that rank has that buffer.
inline bool has(const Problem& problem, Rank rank, Buffer buffer) {
  return rank == problem.root || !is_roots_alone(problem.kind, buffer);
}

struct Choice {
  Algorithm algorithm = Algorithm::ring;
  /// Copies of the algorithm's lanes; copy s of L takes windows s, s + L, s + 2L, …
  std::uint16_t lanes = 1;
  /// Elements of one block that one window covers, at least 1.
  std::uint64_t slice_elems = 1;

  friend bool operator==(const Choice&, const Choice&) = default;
};

/// Whether each rank knows only the ragged blocks' sizes that it sends and receives itself: gather
/// and scatter (the root knows all), all_to_all. Such an operation has two descriptions:
/// - As one rank sees it, for its program and its Plan. gather, scatter: a rank other than the root
///   has zeros in `block_counts` except for its own entry. all_to_all: what it sends to each rank,
///   and in `output_counts` what it receives from each.
/// - Whole, for code that looks at all ranks: the verifier, theories and tests. gather, scatter: as
///   the root sees it. all_to_all: `block_counts` is a matrix of size × size, row i is what rank i
///   sends to each, and `output_counts` is empty.
/// A Choice must not depend on such sizes, or ranks would run different programs.
bool sizes_are_private(const Problem& problem);
/// The same for that kind's v-operation.
bool sizes_are_private(Kind kind);

/// The v-operation of a problem, as one rank sees it if all blocks happen to have one size.
Problem evenly_ragged(Problem problem);

/// The whole operation as `rank` sees it; unchanged if sizes are not private.
Problem view_of(const Problem& whole, Rank rank);

/// Elements of block `block` (0 ≤ block < blocks) if the operation's buffer is cut into `blocks`
/// parts. For all_reduce, reduce, broadcast and barrier `count` is divided evenly, and the first
/// `count % blocks` parts are one longer. For the others it is the block's own size. `buffer`
/// matters only to a ragged all_to_all; its scratch is measured like its input.
std::uint64_t block_elems(const Problem& problem, std::uint32_t blocks, std::uint32_t block,
                          Buffer buffer = Buffer::input);

/// Elements before block `block` in a buffer that holds all blocks one after another.
std::uint64_t block_offset(const Problem& problem, std::uint32_t blocks, std::uint32_t block,
                           Buffer buffer = Buffer::input);

/// Windows of a pass over blocks of these sizes: ceil(largest block / slice_elems); 0 if all blocks
/// are empty. If sizes are private, ranks have different counts: a slice in a window that its
/// receiver does not count is empty, and not sent.
std::uint64_t window_count(const Problem& problem, std::uint32_t blocks, const Choice& choice);

/// The part of block `block` that window `window` covers: elements [first, first + elems) of the
/// block. `elems` is 0 beyond its end.
struct Slice {
  std::uint64_t first;
  std::uint64_t elems;
};
Slice slice_of(const Problem& problem, std::uint32_t blocks, std::uint32_t block,
               std::uint64_t window, const Choice& choice, Buffer buffer = Buffer::input);

}  // namespace ccoll
