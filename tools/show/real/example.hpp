// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Calls with numbers that people can follow: made by ranks of this process, and printed with their
/// buffers before and after.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/measure/operations.hpp"
#include "show/real/buffer_list.hpp"
#include "show/real/rank_groups.hpp"
#include "show/real/splits.hpp"

namespace ccoll::show {

/// Ranks that make the call together.
struct Party {
  RankGroup ranks;
  std::vector<Splits> splits;  ///< one for a v-operation, else empty
  std::string algorithm;       ///< the one that ran; empty if there is no choice
};

struct Example {
  const bench::Operation* operation = nullptr;
  /// The arguments of all ranks; the root is one of each party's ranks, by its number in the party.
  bench::Arguments arguments;
  std::uint32_t ranks = 1;
  std::string transport;
  bool is_parted = false;      ///< by --groups or --chain
  BufferCounts buffers;        ///< of each buffer in a list; empty: there is one buffer
  std::vector<Party> parties;  ///< one of all ranks unless parted
  /// By rank; empty for a rank in no party.
  std::vector<std::vector<std::byte>> before, after;
};

/// Elements of the buffers of the rank with number `number` in a party.
struct Lengths {
  std::uint64_t input = 0;
  std::uint64_t output = 0;
};
Lengths lengths_of(const Example& example, const Party& party, std::size_t number);
/// The same for each buffer in a list, or for the only one.
std::vector<Lengths> buffers_of(const Example& example, const Party& party, std::size_t number);

/// Every rank makes the calls in a thread of its own, several as one group. All have the same
/// parties. Returns the error of the first rank that fails, or "".
std::string carry_out(std::span<Example> examples);

/// For people, and for scripts.
std::string examples_text(std::span<const Example> examples, std::size_t width);
std::string examples_json(std::span<const Example> examples);

}  // namespace ccoll::show
