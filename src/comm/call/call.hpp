// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A collective as the caller asked for it, and how it is built from the caller's blocks.

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ccoll/blocks.hpp"
#include "ccoll/reduction.hpp"
#include "core/result.hpp"
#include "core/signature.hpp"
#include "engine/buffer_view.hpp"
#include "engine/mix.hpp"
#include "schedule/problem.hpp"

namespace ccoll {

struct Call {
  Kind kind = Kind::all_reduce;
  BufferView input;
  BufferView output;
  std::size_t count = 0;  ///< as Problem::count; 0 for v-operations
  /// A v-operation's block sizes, as in Problem; empty for others.
  std::vector<std::uint64_t> block_counts;
  std::vector<std::uint64_t> output_counts;
  /// A hash of a coalesced call's counts: ranks that cut the same sum differently would mix up
  /// their buffers.
  std::optional<std::uint32_t> coalesced;
  bool in_place = false;  ///< input and output share memory
  DataType type = DataType::uint8;
  Reduction op;
  Rank root = 0;
  std::optional<Algorithm> algorithm;
  /// The signature's kind, where the call is part of something else (core/signature.hpp).
  std::optional<std::uint8_t> shown_as;
  std::chrono::milliseconds timeout{0};
  std::string_view label;

  bool ragged() const { return !block_counts.empty(); }
};

/// A collective on plain buffers without options, as programs repeat it.
struct PlainCall {
  Kind kind = Kind::all_reduce;
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  Rank root = 0;
  std::size_t count = 0;
  const void* input = nullptr;
  void* output = nullptr;

  /// Whether all but the buffers are equal.
  bool is_like(const PlainCall& other) const {
    return kind == other.kind && type == other.type && op == other.op && root == other.root &&
           count == other.count;
  }
  /// Two multiplications: mix() would take a tenth of a short call's time.
  std::size_t hash() const {
    constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15ULL;
    const auto rest = (static_cast<std::uint64_t>(kind) << 24) ^
                      (static_cast<std::uint64_t>(type) << 16) ^
                      (static_cast<std::uint64_t>(op) << 8) ^ root;
    return ((count * kOdd ^ rest) * kOdd) >> 32;
  }
};

/// Whether two pieces of memory share nothing.
inline bool apart(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(a);
  const auto other = reinterpret_cast<std::uintptr_t>(b);
  return begin + a_bytes <= other || other + b_bytes <= begin;
}

/// "all_gather", "all_gather_v".
std::string name_of(const Call& call);

/// Whether devices can make it, which depends on the call's signature alone.
inline bool suits_devices(const Call& call) {
  return !call.ragged() && !call.coalesced && !call.shown_as &&
         call.op.form() == Reduction::Form::plain;
}

/// Whether it reads elements that it may have overwritten.
inline bool needs_input_copy(const Call& call) {
  return call.in_place && !may_be_in_place(call.kind);
}

/// An all_gather of `bytes` at each rank's `input`.
Call all_gather_of(const void* input, void* output, std::size_t bytes);

/// The number of elements that `rank` has in a buffer; 0 if it uses none.
std::uint64_t elems_of(const Call& call, Buffer buffer, Rank rank, Rank size);

/// The signature that ranks compare; `algorithm` is the one that was asked for.
Signature signature_of(const Call& call);

/// A collective and the rank that makes it.
struct Outline {
  Kind kind = Kind::all_reduce;
  const Reduction& op;
  Rank root = 0;
  Rank rank = 0;
  Rank size = 1;

  bool is_root() const { return rank == root; }
};

struct Blocks {
  const ConstBlock& input;
  const Block& output;

  /// With a constructor, temporaries live as long as the expression that makes them.
  Blocks(const ConstBlock& in, const Block& out) : input(in), output(out) {}
};
/// Where the blocks of a v-operation lie: one block, or one per rank.
struct BlockLists {
  std::span<const ConstBlock> inputs;
  std::span<const Block> outputs;
};
using BufferPairs = std::span<const BufferPair>;

// These make a call whose arguments are right, or say why it cannot be made.

/// Fails unless the two blocks fit each other.
Result<Call> call_of(const Outline& outline, const Blocks& blocks);
/// Fails unless there are as many blocks as the kind asks for, of one type, and no null.
Result<Call> call_of(const Outline& outline, const BlockLists& lists);
/// Fails unless the buffers are of one type, and none null that is used.
Result<Call> call_of(const Outline& outline, BufferPairs buffers);

}  // namespace ccoll
