// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Calls with numbers that people can follow: made by all ranks of this process, and printed with
/// their buffers before and after.

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
  std::vector<Splits> splits;  ///< one where the operation is a v-operation, else none
  std::string algorithm;       ///< that was run; empty where there is nothing to choose
};

struct Example {
  const bench::Operation* operation = nullptr;
  /// What all ranks pass; its root is one of each party's ranks, by their number in it.
  bench::Arguments arguments;
  std::uint32_t ranks = 1;
  std::string transport;
  bool is_parted = false;      ///< by --groups or --chain
  BufferCounts buffers;        ///< of each buffer in a list of them; none: there is one buffer
  std::vector<Party> parties;  ///< otherwise one, of all ranks
  /// By rank; of one in no party nothing.
  std::vector<std::vector<std::byte>> before, after;
};

/// Elements of the buffers of the rank with number `number` in a party.
struct Lengths {
  std::uint64_t input = 0;
  std::uint64_t output = 0;
};
Lengths lengths_of(const Example& example, const Party& party, std::size_t number);
/// The same of each buffer in a list of them, else of the one that there is.
std::vector<Lengths> buffers_of(const Example& example, const Party& party, std::size_t number);

/// Every rank makes the calls, several as one group of calls, in a thread of its own. They have the
/// same parties. What the first rank that fails says, or nothing.
std::string carry_out(std::span<Example> examples);

/// For people, and for scripts.
std::string examples_text(std::span<const Example> examples, std::size_t width);
std::string examples_json(std::span<const Example> examples);

}  // namespace ccoll::show
