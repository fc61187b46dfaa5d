// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A call with numbers that people can follow: made by all ranks of this process, and printed with
/// their buffers before and after.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/measure/operations.hpp"
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
  bool is_parted = false;      ///< by --groups
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

/// Every rank makes the call, in a thread of its own. What the first that fails says, or nothing.
std::string carry_out(Example& example);

/// For people, and for scripts.
std::string example_text(const Example& example);
std::string example_json(const Example& example);

}  // namespace ccoll::show
