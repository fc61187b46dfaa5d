// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The call on a command line: the operation, the number of ranks and the algorithm. Every command
/// with these options uses this.

#include <cstdint>
#include <optional>
#include <string>

#include "algorithms/algorithms.hpp"
#include "bench/measure/operations.hpp"
#include "ccoll/types.hpp"
#include "core/result.hpp"
#include "rendezvous/most_ranks.hpp"

namespace CLI {
class App;
}

namespace ccoll::show {

/// The words as typed. Values set before the options are added are their defaults.
struct CallWords {
  std::string operation;
  std::string algorithm;  ///< empty: the operation's first
  std::string hosts;      ///< "4,4": ranks on each host
  std::uint32_t ranks = 4;
  std::optional<std::uint64_t> count;  ///< none: one element in each rank's block
  std::optional<std::uint32_t> root;   ///< none: 0
  std::string op = "sum";
  std::string type = "int32";
};

struct Call {
  const bench::Operation* operation = nullptr;
  Problem problem;
  const CatalogueEntry* entry = nullptr;  ///< of the algorithm; null if it is not one of ours
  ReduceOp op = ReduceOp::sum;
  DataType type = DataType::int32;
};

/// The largest number of ranks for commands that process every rank's program.
inline constexpr std::uint32_t kMostRanksDrawn = 256;
/// The same for commands that use formulas.
inline constexpr std::uint32_t kMostRanks = kMostRanksOfJob;
inline constexpr std::uint64_t kMostElements = std::uint64_t{1} << 40;

/// OP, -n, --count, --root, --hosts.
void add_problem_options(CLI::App& app, CallWords& words, std::uint32_t most_ranks);
/// The same, and --algo, --op and --dtype.
void add_call_options(CLI::App& app, CallWords& words, std::uint32_t most_ranks);

/// An operation with schedules, by its name or another library's.
Result<const bench::Operation*> operation_named(const std::string& name);

/// The root that was asked for, else 0. Fails if the operation has no root, or if no
/// rank has that number.
Result<std::uint32_t> root_of(std::optional<std::uint32_t> asked, const bench::Operation& operation,
                              std::uint32_t ranks);

/// Fails if a word is unknown or does not fit the others.
Result<Call> call_of(const CallWords& words);

/// "all_reduce by ring, 4 ranks, 8 elements".
std::string call_text(const Call& call);

}  // namespace ccoll::show
